//! filecheck.
