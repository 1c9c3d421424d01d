//! Routing: the precedence of Gateway API, case by case and compared with a naive implementation.

#![expect(clippy::tests_outside_test_module, reason = "an integration test")]

mod cases;
mod differential;
mod explain;
#[path = "../../fuzz/checks/route_match.rs"]
mod route_match;
mod work;

use route_match::rules;
