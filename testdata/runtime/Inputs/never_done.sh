# A compiler that does not come to an end: the program that is called has started another one.
sleep 600
