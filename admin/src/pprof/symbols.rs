//! Names and lines of return addresses, each looked up once.

use std::collections::HashMap;

/// A function at an address. Several lie at one address where some were inlined into others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) name: String,
    /// Empty where it is not known.
    pub(super) file: String,
    /// 0 where it is not known.
    pub(super) line: u32,
}

/// What was looked up by now.
#[derive(Debug, Default)]
pub(super) struct Symbols(HashMap<usize, Vec<Symbol>>);

impl Symbols {
    /// The functions at a return address, the innermost first; at least one.
    pub(super) fn of(&mut self, address: usize) -> &[Symbol] {
        self.0.entry(address).or_insert_with(|| look_up(address))
    }
}

fn look_up(address: usize) -> Vec<Symbol> {
    let mut found = Vec::new();
    // A call lies in front of the address that it returns to, which may be another line already.
    let call = std::ptr::without_provenance_mut(address.saturating_sub(1));
    backtrace::resolve(call, |symbol| {
        found.push(Symbol {
            name: symbol
                .name()
                .map_or_else(|| unnamed(address), |name| format!("{name:#}")),
            file: symbol
                .filename()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            line: symbol.lineno().unwrap_or_default(),
        });
    });
    if found.is_empty() {
        found.push(Symbol {
            name: unnamed(address),
            file: String::new(),
            line: 0,
        });
    }
    found
}

fn unnamed(address: usize) -> String {
    format!("{address:#x}")
}
