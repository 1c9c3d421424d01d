//! The expressions that this process knows: those in use, and, up to a bound, those that were
//! measured or refused before.
//!
//! A route is translated again whenever a Service that it refers to changes, and a rule is decoded
//! for each listener. Neither compiles its expressions again.

use std::collections::HashMap;
use std::mem::size_of;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use super::matcher::measure;
use super::{InvalidPattern, Parsed, Pattern, Purpose};

/// The pattern of a text, compiled only if the text is not known, or now needed for matching.
pub(super) fn pattern(text: &str, purpose: Purpose) -> Result<Pattern, InvalidPattern> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.pattern(text, purpose)
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
struct Known {
    verdicts: HashMap<Arc<str>, Verdict>,
    /// What they take, about.
    bytes: usize,
    /// At this size those that are not in use are forgotten.
    full: usize,
    /// Texts that were compiled.
    measured: u64,
}

#[derive(Debug)]
enum Verdict {
    Valid {
        compiled_bytes: usize,
        in_use: Weak<Parsed>,
    },
    Refused(InvalidPattern),
}

impl Default for Known {
    fn default() -> Self {
        Self {
            verdicts: HashMap::new(),
            bytes: 0,
            full: MAX_UNUSED_BYTES,
            measured: 0,
        }
    }
}

impl Known {
    fn pattern(&mut self, text: &str, purpose: Purpose) -> Result<Pattern, InvalidPattern> {
        let pattern = self.of_text(text, purpose)?;
        if purpose == Purpose::Match {
            pattern.prepare()?;
        }
        Ok(pattern)
    }

    fn of_text(&mut self, text: &str, purpose: Purpose) -> Result<Pattern, InvalidPattern> {
        match self.verdicts.get_key_value(text) {
            None => self.learn(text, purpose),
            Some((_, Verdict::Refused(why))) => Err(why.clone()),
            Some((
                text,
                Verdict::Valid {
                    compiled_bytes,
                    in_use,
                },
            )) => {
                if let Some(parsed) = in_use.upgrade() {
                    return Ok(Pattern(parsed));
                }
                let (text, compiled_bytes) = (Arc::clone(text), *compiled_bytes);
                Ok(self.keep(text, compiled_bytes))
            }
        }
    }

    fn learn(&mut self, text: &str, purpose: Purpose) -> Result<Pattern, InvalidPattern> {
        self.measured += 1;
        let text: Arc<str> = text.into();
        self.bytes += size(&text);
        if self.bytes > self.full {
            self.forget_unused();
            self.bytes += size(&text);
        }
        match measure(&text) {
            Ok(measured) => {
                let pattern = self.keep(text, measured.bytes);
                if purpose == Purpose::Match {
                    pattern.prepare_with(measured)?;
                }
                Ok(pattern)
            }
            Err(why) => {
                self.verdicts.insert(text, Verdict::Refused(why.clone()));
                Err(why)
            }
        }
    }

    fn keep(&mut self, text: Arc<str>, compiled_bytes: usize) -> Pattern {
        let parsed = Arc::new(Parsed {
            text: Arc::clone(&text),
            compiled_bytes,
            matcher: OnceLock::new(),
        });
        let in_use = Arc::downgrade(&parsed);
        let verdict = Verdict::Valid {
            compiled_bytes,
            in_use,
        };
        self.verdicts.insert(text, verdict);
        Pattern(parsed)
    }

    /// Forgets what is not in use, and leaves room for as much again.
    fn forget_unused(&mut self) {
        self.verdicts.retain(|_, verdict| match verdict {
            Verdict::Valid { in_use, .. } => in_use.strong_count() > 0,
            Verdict::Refused(_) => false,
        });
        self.verdicts.shrink_to_fit();
        self.bytes = self.verdicts.keys().map(size).sum();
        self.full = self.bytes.saturating_mul(2).max(MAX_UNUSED_BYTES);
    }
}

/// What a verdict takes, about: the text, twice in that of a refused one.
fn size(text: &Arc<str>) -> usize {
    2 * text.len() + size_of::<(Arc<str>, Verdict)>() + size_of::<Parsed>()
}

/// What verdicts on expressions that are not in use take at least before they are forgotten: 4 MiB,
/// some 10 000 texts of usual length.
const MAX_UNUSED_BYTES: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::super::MatchWork;
    use super::*;

    #[test]
    fn a_text_is_measured_once() {
        let mut known = Known::default();
        let first = known.pattern("/a[0-9]+", Purpose::Check).expect("valid");
        for _ in 0..3 {
            assert_eq!(known.pattern("/a[0-9]+", Purpose::Check), Ok(first.clone()));
            assert!(known.pattern("(a{1000}){1000}", Purpose::Check).is_err());
            assert!(known.pattern("a(", Purpose::Check).is_err());
        }
        assert_eq!(known.measured, 3);
        drop(first);
        known.pattern("/a[0-9]+", Purpose::Check).expect("valid");
        assert_eq!(known.measured, 3, "known although not in use");
    }

    #[test]
    fn equal_patterns_share_their_compiled_form() {
        let mut known = Known::default();
        let first = known.pattern("/b[0-9]+", Purpose::Check).expect("valid");
        let id = first.matcher().id();
        let second = known.pattern("/b[0-9]+", Purpose::Check).expect("valid");
        assert_eq!(second.matcher().id(), id);
        let other = known.pattern("/c[0-9]+", Purpose::Check).expect("valid");
        assert_ne!(other.matcher().id(), id);
    }

    #[test]
    fn verdicts_on_texts_that_nobody_uses_are_bounded() {
        let mut known = Known::default();
        let used = known.pattern("/used", Purpose::Check).expect("valid");
        let refused = "x".repeat(1000);
        for number in 0..3_000 {
            drop(known.pattern(&format!("{refused}{number}("), Purpose::Check));
            drop(known.pattern(&format!("/{number}"), Purpose::Check));
            assert!(known.bytes <= MAX_UNUSED_BYTES, "{}", known.bytes);
        }
        let kept: usize = known.verdicts.keys().map(size).sum();
        assert_eq!(kept, known.bytes);
        let measured = known.measured;
        assert_eq!(known.pattern("/used", Purpose::Check), Ok(used));
        assert_eq!(known.measured, measured, "what is in use stays known");
    }

    #[test]
    fn what_was_compiled_to_be_measured_is_kept_for_matching() {
        let mut known = Known::default();
        let pattern = known.pattern("/d[0-9]+", Purpose::Match).expect("valid");
        let matcher = pattern.0.matcher.get().expect("it is compiled");
        let work = &mut MatchWork::of(10_000);
        let mut memory = matcher.memory(work).expect("enough work");
        assert_eq!(matcher.is_match(b"/d1", &mut memory, work), Ok(true));
        let checked = known.pattern("/e[0-9]+", Purpose::Check).expect("valid");
        assert!(checked.0.matcher.get().is_none(), "a controller keeps none");
    }
}
