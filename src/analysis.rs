//! stub
pub mod alias;
