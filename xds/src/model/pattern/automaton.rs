//! The lazily built automaton of an expression, and its searches, which count what they compute.

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson::NFA;
use regex_automata::{Anchored, Input};

use super::work::{Costs, MatchWork, STEPS_PER_SEARCH, WorkExceeded};

/// An automaton whose states are built when a text first leads to them.
#[derive(Debug)]
pub(super) struct Automaton {
    dfa: DFA,
    costs: Costs,
}

/// The states that texts have led to.
#[derive(Debug)]
pub(super) struct AutomatonMemory {
    cache: Cache,
    /// The most states of the expression that one of the automaton stands for, so far.
    largest_set: usize,
}

impl Automaton {
    /// The automaton of an expression, unless it has Unicode word boundaries.
    pub(super) fn of(nfa: &NFA) -> Option<Self> {
        let config = Config::new()
            .cache_capacity(SEARCH_BYTES)
            .skip_cache_capacity_check(true);
        let mut builder = DFA::builder();
        let dfa = builder.configure(config).build_from_nfa(nfa.clone()).ok()?;
        let costs = Costs::of(nfa, dfa.byte_classes().stride2());
        Some(Self { dfa, costs })
    }

    pub(super) fn costs(&self) -> &Costs {
        &self.costs
    }

    pub(super) fn memory(&self) -> AutomatonMemory {
        AutomatonMemory {
            cache: self.dfa.create_cache(),
            largest_set: 1,
        }
    }

    /// Whether it matches the whole text. Its expression ends with an anchor, so only the end of the
    /// text leads to a state that matches.
    pub(super) fn is_match(
        &self,
        text: &[u8],
        memory: &mut AutomatonMemory,
        work: &mut MatchWork,
    ) -> Result<bool, WorkExceeded> {
        work.take(STEPS_PER_SEARCH)?;
        let mut state = self.start(text, memory, work)?;
        if state.is_dead() {
            return Ok(false);
        }
        for (at, byte) in text.iter().enumerate() {
            let mut next = self.dfa.next_state_untagged(&memory.cache, state, *byte);
            if next.is_unknown() {
                next = self.transition(state, *byte, memory, work)?;
            }
            if next.is_tagged() {
                debug_assert!(next.is_dead(), "it does not match before the end");
                work.spend(at);
                return Ok(false);
            }
            state = next;
        }
        // Whether the last transition is known cannot be asked.
        let last = self.costs.transition(memory.largest_set);
        work.take(text.len() + last)?;
        let last = self.dfa.next_eoi_state(&mut memory.cache, state);
        Ok(last.map_err(|_| WorkExceeded)?.is_match())
    }

    fn start(
        &self,
        text: &[u8],
        memory: &mut AutomatonMemory,
        work: &mut MatchWork,
    ) -> Result<LazyStateID, WorkExceeded> {
        let before = memory.bytes();
        let input = Input::new(text).anchored(Anchored::Yes);
        let start = self.dfa.start_state_forward(&mut memory.cache, &input);
        if memory.bytes() != before {
            memory.learn(before, &self.costs);
            work.take(self.costs.visit_all())?;
        }
        start.map_err(|_| WorkExceeded)
    }

    /// Computes a transition.
    #[cold]
    fn transition(
        &self,
        from: LazyStateID,
        byte: u8,
        memory: &mut AutomatonMemory,
        work: &mut MatchWork,
    ) -> Result<LazyStateID, WorkExceeded> {
        work.take(self.costs.transition(memory.largest_set))?;
        let before = memory.bytes();
        let next = self.dfa.next_state(&mut memory.cache, from, byte);
        memory.learn(before, &self.costs);
        // It is not configured to give up.
        next.map_err(|_| WorkExceeded)
    }
}

impl AutomatonMemory {
    /// What its states take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.cache.memory_usage()
    }

    /// Notes the size of the state that was added, if one was. If all others were forgotten for it, its
    /// size is not known, but that of those after it will be.
    fn learn(&mut self, before: usize, costs: &Costs) {
        let added = self.bytes().saturating_sub(before);
        self.largest_set = self.largest_set.max(costs.set_of(added));
    }
}

/// What the states of one automaton take at most, in bytes: 64 KiB; ordinary ones need 1 to 10. A
/// large automaton takes what its fewest states need, up to about its own size.
const SEARCH_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use regex_automata::nfa::thompson::pikevm::PikeVM;

    use super::super::matcher::measure;
    use super::*;

    /// Bytes of an alphabet, in an order without a period.
    fn bytes(alphabet: &[u8], length: usize, seed: u32) -> Vec<u8> {
        let mut state = seed.wrapping_mul(2_654_435_761) | 1;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            alphabet[state as usize % alphabet.len()]
        };
        (0..length).map(next).collect()
    }

    fn automaton(text: &str) -> (Automaton, AutomatonMemory) {
        let automaton = Automaton::of(&measure(text).expect(text).nfa).expect(text);
        let memory = automaton.memory();
        (automaton, memory)
    }

    /// The steps of one search.
    fn steps(automaton: &Automaton, memory: &mut AutomatonMemory, text: &[u8]) -> u64 {
        let mut work = MatchWork::of(u64::MAX);
        automaton.is_match(text, memory, &mut work).expect("enough");
        u64::MAX - work.left()
    }

    #[test]
    fn searches_agree_with_the_plain_engine() {
        let expressions: [(&str, &[u8]); 16] = [
            ("", b"a"),
            ("a|ab", b"ab"),
            ("(a|b)*a(a|b){3}", b"ab"),
            ("(a|b)*a(a|b){300}", b"ab"),
            ("[a-z]{2}(-[A-Z]{2})?", b"aZ-"),
            ("/v[0-9]+/.*", b"/v1"),
            (".*(ab|ba).*", b"abc"),
            ("a*b*c*", b"abc"),
            ("(a?){5}b", b"ab"),
            ("(a|)*b", b"ab"),
            (r"\w+\s\d", b"a 1"),
            (r"a\b.b", b"a b"),
            (r".*\ba\b.*", b"a \xff"),
            ("[^a]+", b"b\xe9\n"),
            ("(?m)a$.*", b"a\n"),
            ("[a&&b]", b"ab"),
        ];
        let mut matched = 0;
        for (text, alphabet) in expressions {
            let (automaton, mut memory) = automaton(text);
            let vm = PikeVM::new_from_nfa(measure(text).expect(text).nfa).expect(text);
            let mut simulation = vm.create_cache();
            for seed in 0..300 {
                let value = bytes(alphabet, seed as usize % 9, seed);
                let input = Input::new(&value).anchored(Anchored::Yes);
                let expected = vm.is_match(&mut simulation, input);
                let mut work = MatchWork::of(u64::MAX);
                let found = automaton.is_match(&value, &mut memory, &mut work);
                assert_eq!(found, Ok(expected), "{text} {value:?}");
                matched += usize::from(expected);
            }
        }
        assert!(matched > 500, "{matched}");
    }

    #[test]
    fn searches_agree_with_the_plain_engine_when_their_memory_is_full() {
        let text = "(a|b)*a(a|b){300}";
        let (automaton, mut memory) = automaton(text);
        let vm = PikeVM::new_from_nfa(measure(text).expect(text).nfa).expect(text);
        let mut simulation = vm.create_cache();
        let mut matched = 0;
        for seed in 0..12 {
            let value = bytes(b"ab", 1_000, seed);
            let input = Input::new(&value).anchored(Anchored::Yes);
            let expected = vm.is_match(&mut simulation, input);
            let mut work = MatchWork::of(u64::MAX);
            let found = automaton.is_match(&value, &mut memory, &mut work);
            assert_eq!(found, Ok(expected), "{seed}");
            matched += usize::from(expected);
        }
        assert!((1..12).contains(&matched), "{matched}");
        assert!(memory.cache.clear_count() > 0, "it was full");
    }

    #[test]
    fn an_expression_and_a_text_made_for_it_end_within_their_work() {
        let (automaton, mut memory) = automaton("(a|b)*a(a|b){400}");
        let text = bytes(b"ab", 16 << 10, 1);
        let whole = steps(&automaton, &mut memory, &text);
        let limit = 1 << 20;
        assert!(whole > 20 * limit, "{whole}");
        let mut work = MatchWork::of(limit);
        let found = automaton.is_match(&text, &mut memory, &mut work);
        assert_eq!((found, work.left()), (Err(WorkExceeded), 0));
        // The next search of the request does nothing, and the next request is not concerned.
        let next = automaton.is_match(b"", &mut memory, &mut work);
        assert_eq!(next, Err(WorkExceeded));
        let next = automaton.is_match(b"ab", &mut memory, &mut MatchWork::of(limit));
        assert_eq!(next, Ok(false));
    }

    #[test]
    fn empty_alternatives_do_not_hide_work() {
        // Each byte visits all of them, and leads to a state that stands for few.
        let alternatives = "(|||||||||)".repeat(60);
        let (automaton, mut memory) = automaton(&format!("(a{alternatives}b|[ab])*"));
        let costs = steps(&automaton, &mut memory, &bytes(b"ab", 50, 1));
        assert!(costs > automaton.costs().visit_all() as u64, "{costs}");
        assert_eq!(
            automaton.costs().transition(1),
            automaton.costs().visit_all()
        );
    }

    #[test]
    fn ordinary_expressions_take_little_work() {
        let browser = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15";
        let words: Vec<String> = (0..80).map(|number| format!("word{number}")).collect();
        let words = format!(".*({}).*", words.join("|"));
        let token = "0123456789abcdef".repeat(32);
        for (text, value, first, then) in [
            (
                "/v[0-9]+/.*",
                "/v12/items/of/a/long/path/to/things",
                5_000,
                400,
            ),
            ("[a-z]{2}(-[A-Z]{2})?", "en-GB", 5_000, 400),
            (".*(Android|iPhone).*", browser, 20_000, 700),
            ("[A-Za-z0-9+/=_-]{20,512}", &token, 1_000_000, 1_000_000),
            (&words, browser, 1_000_000, 20_000),
        ] {
            let (automaton, mut memory) = automaton(text);
            let cold = steps(&automaton, &mut memory, value.as_bytes());
            let warm = steps(&automaton, &mut memory, value.as_bytes());
            assert!(cold <= first && warm <= then, "{text}: {cold} then {warm}");
        }
    }
}
