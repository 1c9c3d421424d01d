//! Gateway API objects in, model and statuses out: pure and synchronous.
