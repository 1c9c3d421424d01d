//! The structure of the code: which modules depend on which, and how many files a change touches.

mod circles;
mod measures;
mod module_cycles;
mod sources;
