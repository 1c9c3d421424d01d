//! Delta xDS from both sides: each case is a mistake that implementations of it have made, and a
//! naive client and a naive server agree with ours on everything.

mod batches;
mod client;
mod convergence;
mod digests;
mod features;
mod forms;
mod restrictions;
mod subscriptions;
mod support;
