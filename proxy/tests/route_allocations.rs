//! Selecting a rule allocates nothing, whatever is matched.

#[path = "support/allocations.rs"]
mod allocations;
#[path = "route/rules.rs"]
mod rules;

use proxy::route::RegexCache;

use allocations::ALLOCATIONS;
use rules::{Request, Rule, compile, name};

const RULES: [&str; 9] = [
    "exact host=a.com exact=/exact/path",
    "prefix host=a.com prefix=/prefix",
    "deep host=a.com prefix=/prefix/of/many/segments header=x-a:never",
    "method host=a.com prefix=/m method=PURGE",
    "lines host=*.com prefix=/lines header=x-a:1,2",
    "header host=*.com prefix=/regex header~x-a:[0-9]+(,[0-9]+)*",
    "query prefix=/query query=q:1",
    "decoded prefix=/query query~q:[a-z]+\\s[a-z]+",
    "path regex=/(item|thing)/[0-9]+/.*",
];

const REQUESTS: [(&str, &str); 12] = [
    ("GET a.com/exact/path", "exact"),
    ("GET a.com/prefix/of/many/segments/and/more", "prefix"),
    ("PURGE a.com/m", "method"),
    ("GET a.com/lines x-a:1 x-a:2", "lines"),
    ("GET b.com/regex x-a:123", "header"),
    ("GET b.com/regex x-a:123 x-a:4", "header"),
    ("GET b.com/regex x-a:123 x-a:y", "none"),
    ("GET a.com/query?q=%31", "query"),
    ("GET any/query?q=some+text", "decoded"),
    ("GET any/thing/12/x", "path"),
    ("GET a.com/item/x", "none"),
    ("GET a.com/nowhere", "none"),
];

#[test]
fn route_selection_allocates_nothing_after_the_first_use_of_its_patterns() {
    let rules = RULES.map(Rule::parse);
    let (router, mut cache) = (compile(&rules), RegexCache::new());
    let requests = REQUESTS.map(|(line, expected)| (Request::parse(line), expected));
    let mut select_all = || {
        for (request, expected) in &requests {
            let selected = router
                .select(&request.view(), &mut cache)
                .expect("little work");
            assert_eq!(name(selected, &rules), *expected, "{request:?}");
        }
    };
    select_all();
    let before = ALLOCATIONS.get();
    assert!(before > 0, "the allocator does not count");
    for _ in 0..10 {
        select_all();
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
