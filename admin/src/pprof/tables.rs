//! The deduplicating tables of a profile (`profile.proto` of pprof).

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use pprof::protos::{Function, Line, Location, Profile, ValueType};

use super::symbols::{Symbol, Symbols};

/// The tables of a profile, whose entries are referenced by index. Index 0 is the empty string, and is
/// not used for functions and locations.
pub(super) struct Tables {
    symbols: Symbols,
    strings: Vec<String>,
    by_string: HashMap<String, i64>,
    functions: Vec<Function>,
    by_function: HashMap<(i64, i64), u64>,
    locations: Vec<Location>,
    by_address: HashMap<usize, u64>,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            symbols: Symbols::default(),
            strings: vec![String::new()],
            by_string: HashMap::from([(String::new(), 0)]),
            functions: Vec::new(),
            by_function: HashMap::new(),
            locations: Vec::new(),
            by_address: HashMap::new(),
        }
    }
}

impl Tables {
    /// The index of a string, which is added where it is missing.
    pub(super) fn string(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.by_string.get(text) {
            return number;
        }
        let number = signed(self.strings.len() as u64);
        self.strings.push(text.to_owned());
        self.by_string.insert(text.to_owned(), number);
        number
    }

    /// The name and unit of a sample's value.
    pub(super) fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType {
            ty: self.string(name),
            unit: self.string(unit),
        }
    }

    fn function(&mut self, symbol: &Symbol) -> u64 {
        let (name, file) = (self.string(&symbol.name), self.string(&symbol.file));
        let next = self.functions.len() as u64 + 1;
        let id = *self.by_function.entry((name, file)).or_insert(next);
        if id == next {
            self.functions.push(Function {
                id,
                name,
                system_name: name,
                filename: file,
                ..Function::default()
            });
        }
        id
    }

    /// The location ids of a stack's return addresses.
    pub(super) fn locations(&mut self, stack: &[usize]) -> Vec<u64> {
        stack
            .iter()
            .map(|&address| self.location(address))
            .collect()
    }

    fn location(&mut self, address: usize) -> u64 {
        if let Some(&id) = self.by_address.get(&address) {
            return id;
        }
        let id = self.locations.len() as u64 + 1;
        let symbols = self.symbols.of(address).to_vec();
        let line = symbols
            .iter()
            .map(|symbol| Line {
                function_id: self.function(symbol),
                line: i64::from(symbol.line),
            })
            .collect();
        self.locations.push(Location {
            id,
            address: address as u64,
            line,
            ..Location::default()
        });
        self.by_address.insert(address, id);
        id
    }

    /// A profile with these tables and start time, and no samples.
    pub(super) fn into_profile(self, began: SystemTime) -> Profile {
        let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        Profile {
            time_nanos: i64::try_from(began.as_nanos()).unwrap_or(i64::MAX),
            location: self.locations,
            function: self.functions,
            string_table: self.strings,
            ..Profile::default()
        }
    }
}

/// Converts a count to the signed type of pprof, saturating.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
