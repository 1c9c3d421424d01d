//! Routing: the precedence of Gateway API, case by case and against a naive reading of it.

#![expect(clippy::tests_outside_test_module, reason = "an integration test")]

mod cases;
mod differential;
mod explain;
mod oracle;
mod rules;
