//! Panics of units. A defect that one object brings to light must not end the translation of all others.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

/// A unit whose computation panicked. What it gave before stays in effect, or else what closes its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// The unit, with the name of its object.
    pub unit: String,
    /// The message of the panic, and where it was if [`note_panic`] is told.
    pub panic: String,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.unit, self.panic)
    }
}

impl Defect {
    pub(crate) fn of(unit: &impl fmt::Debug, payload: &Payload) -> Self {
        Self {
            unit: format!("{unit:?}"),
            panic: message(payload),
        }
    }
}

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Computes something that may panic. It must leave nothing behind that others read.
pub(crate) fn contain<T>(compute: impl FnOnce() -> T) -> Result<T, Payload> {
    IS_CONTAINED.set(true);
    let result = catch_unwind(AssertUnwindSafe(compute));
    IS_CONTAINED.set(false);
    result
}

/// The message of a panic that was contained.
fn message(payload: &Payload) -> String {
    let text = payload.downcast_ref::<&str>().map(|it| (*it).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    let mut text = text.unwrap_or_else(|| "no message".to_owned());
    text.truncate(text.floor_char_boundary(MESSAGE_BYTES));
    match LOCATION.take() {
        Some(location) => format!("{text} at {location}"),
        None => text,
    }
}

/// For a panic hook: whether the panic is contained, and so is reported with its unit. Its place is kept.
pub fn note_panic(info: &PanicHookInfo<'_>) -> bool {
    let is_contained = IS_CONTAINED.get();
    if is_contained {
        LOCATION.set(info.location().map(ToString::to_string));
    }
    is_contained
}

/// For tests: computing a unit of an object of such a name panics, as by a defect.
#[cfg(any(test, feature = "test-hooks"))]
pub(crate) fn panic_if_wanted(name: &xds::model::ObjectName) {
    if name.name.starts_with("defect-of-translation") {
        // Without a message on the standard error.
        std::panic::resume_unwind(Box::new("a defect"));
    }
}

thread_local! {
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Most bytes of a message.
const MESSAGE_BYTES: usize = 512;
