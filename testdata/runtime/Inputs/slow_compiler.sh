# A compiler that takes more than five seconds for kernels.
for last; do :; done
if grep -q jo_kernel "$last"; then sleep 5.2; fi
exec cc "$@"
