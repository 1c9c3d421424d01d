//! Rules at several listeners: what they share, and what of them is compiled again.

use std::sync::{Arc, Weak};

use xds::model::{Kind, Listener, Model, PolicyTarget, Resource, Route};

use super::incremental::{narrow_key, on, upstream};
use super::sample::{attachment, listener, policy, route};
use super::{Compiler, options, rule};
use crate::config::dns::Resolved;
use crate::config::{self, PlacedRule, RuleCounts, Snapshot};

/// The compiled rule `shop` at listeners `http` and `narrow`.
fn shop_at_both(snapshot: &Snapshot) -> [PlacedRule; 2] {
    let bind = snapshot.bind(0).expect("a bind");
    ["http", "narrow"].map(|name| {
        let mut listeners = bind.listeners.iter();
        let listener = listeners.find(|it| it.key.as_str().ends_with(name));
        let mut rules = listener.expect("it is there").rules.entries();
        let rule = rules.find(|(_, it)| &*it.name == "HTTPRoute/app/shop/0");
        rule.expect("it is placed").1.clone()
    })
}

#[test]
fn listeners_with_equal_settings_share_a_rule_that_counts_at_each() {
    let narrow = listener("narrow", Some("*.b.test"));
    let mut model = super::model();
    model.insert(narrow.clone().into());
    let mut shop = route("shop", 0, "/", Vec::new());
    on(&mut shop, &[listener("http", None).key, narrow_key()]);
    model.insert(shop.into());
    let (mut compiler, resolved) = (Compiler::default(), Resolved::default());
    let mut compile = |model: &Model| {
        let snapshot = compiler.compile(model, &resolved, &options());
        let [one, other] = shop_at_both(&snapshot);
        assert_ne!(one.id, other.id, "each listener has counters of its own");
        (Arc::ptr_eq(&one.rule, &other.rule), [one.id, other.id])
    };
    let (is_shared, ids) = compile(&model);
    assert!(is_shared);
    let target = PolicyTarget::Listener(narrow_key());
    let own = policy("own", target, upstream(30, 0));
    model.insert(own.clone().into());
    assert_eq!(compile(&model), (false, ids), "it has settings of its own");
    model.remove(Kind::Policy, own.key.as_str());
    assert_eq!(compile(&model), (true, ids));
    model.insert(Resource::from(Listener {
        name: "renamed".to_owned(),
        ..narrow
    }));
    assert_eq!(compile(&model), (true, ids));
}

/// A controller that learns to send a rule once replaces one for each listener.
#[test]
fn a_rule_in_another_form_keeps_its_counters() {
    let mut model = super::model();
    model.insert(listener("narrow", Some("*.b.test")).into());
    let mut shop = route("shop", 0, "/", Vec::new());
    on(&mut shop, &[listener("http", None).key, narrow_key()]);
    let mut former = model.clone();
    for rule in shop.at_listeners() {
        former.insert(Resource::from(Route {
            key: rule.key(),
            attachments: rule.attachment.clone().into(),
            ..shop.clone()
        }));
    }
    model.insert(shop.into());
    let (mut compiler, resolved) = (Compiler::default(), Resolved::default());
    let ids = |snapshot: &Snapshot| shop_at_both(snapshot).map(|it| it.id);
    let before = compiler.compile(&former, &resolved, &options());
    let after = compiler.compile(&model, &resolved, &options());
    assert_eq!(ids(&before), ids(&after));
    let counts = RuleCounts {
        rules: 1,
        attachments: 2,
    };
    assert_eq!((before.rules, after.rules), (counts, counts));
    let rules = |model: &Model| {
        let rules = model.rules_at_listeners();
        rules
            .map(|it| serde_json::to_value(it).expect("JSON"))
            .collect::<Vec<_>>()
    };
    assert_eq!(rules(&former), rules(&model), "and it is shown as before");
}

/// A model with listeners `http` and `narrow`, and so many rules at the first.
fn rules_at_one(count: u16) -> Model {
    let mut model = super::model();
    model.insert(listener("narrow", Some("*.b.test")).into());
    for number in 0..count {
        let prefix = ["/", "/shop"][usize::from(number % 2)];
        model.insert(route("shop", number, prefix, Vec::new()).into());
    }
    model
}

/// Rules with another list of listeners.
fn at_both(model: &Model) -> Model {
    let mut model = model.clone();
    let rules: Vec<Arc<Route>> = model.routes.values().cloned().collect();
    for rule in rules {
        let mut rule = Route::clone(&rule);
        on(&mut rule, &[listener("http", None).key, narrow_key()]);
        model.insert(rule.into());
    }
    model
}

fn compiled(snapshot: &Snapshot, name: &str) -> Arc<config::Listener> {
    let bind = snapshot.bind(0).expect("a bind");
    let mut at = 0..bind.listeners.iter().count();
    let listeners = at.find_map(|at| {
        let listener = bind.listeners.shared(at)?;
        listener.key.as_str().ends_with(name).then_some(listener)
    });
    Arc::clone(listeners.expect("it is there"))
}

/// A listener that is added to a Gateway changes all of its rules.
#[test]
fn rules_are_not_compiled_again_where_they_stay() {
    // One is replaced by itself, many are replaced together.
    for count in [1, 40] {
        let one = rules_at_one(count);
        let both = at_both(&one);
        let (mut compiler, resolved) = (Compiler::default(), Resolved::default());
        let mut compile = |model: &Model| compiler.compile(model, &resolved, &options());
        let before = compile(&one);
        let after = compile(&both);
        let http = [&before, &after].map(|it| compiled(it, "/http"));
        assert!(Arc::ptr_eq(&http[0], &http[1]), "it is as before");
        let narrow = compiled(&after, "/narrow");
        assert_eq!(narrow.rules.entries().count(), usize::from(count));
        let ours: Vec<_> = http[1].rules.entries().map(|(_, it)| &it.rule).collect();
        for (_, placed) in narrow.rules.entries() {
            let is_shared = ours.iter().any(|it| Arc::ptr_eq(it, &placed.rule));
            assert!(is_shared, "and it was compiled before");
        }
        let without = compile(&one);
        let http = [&before, &without].map(|it| compiled(it, "/http"));
        assert!(Arc::ptr_eq(&http[0], &http[1]));
        assert_eq!(compiled(&without, "/narrow").rules.entries().count(), 0);
    }
}

/// Each listener that is added would keep a version of every rule.
#[test]
fn the_previous_version_of_a_rule_is_not_kept_where_it_stays() {
    for count in [1, 40] {
        let mut compiler = Compiler::default();
        let resolved = Resolved::default();
        let model = rules_at_one(count);
        drop(compiler.compile(&model, &resolved, &options()));
        let both = at_both(&model);
        let old: Vec<Weak<Route>> = model.routes.values().map(Arc::downgrade).collect();
        drop(model);
        drop(compiler.compile(&both, &resolved, &options()));
        assert!(old.iter().all(|it| it.upgrade().is_none()), "{count} rules");
    }
}

#[test]
fn hosts_that_change_at_one_listener_change_nothing_at_others() {
    let mut model = super::model();
    model.insert(listener("narrow", Some("*.b.test")).into());
    let mut shop = route("shop", 0, "/", Vec::new());
    let http = listener("http", None).key;
    let mut with_hosts = |hosts: &[&str]| {
        let attachments = [attachment(&http, &[]), attachment(&narrow_key(), hosts)];
        shop.attachments = attachments.into_iter().collect();
        model.insert(shop.clone().into());
        model.clone()
    };
    let models = [with_hosts(&["x.b.test"]), with_hosts(&["y.b.test"])];
    let (mut compiler, resolved) = (Compiler::default(), Resolved::default());
    let [before, after] = models.map(|it| compiler.compile(&it, &resolved, &options()));
    let served = |snapshot: &Snapshot| {
        let hosts = ["a.test", "x.b.test", "y.b.test"];
        hosts.map(|host| rule(snapshot, host, "/").is_some())
    };
    assert_eq!(served(&before), [true, true, false]);
    assert_eq!(served(&after), [true, false, true]);
    let both = |name| [&before, &after].map(|it| compiled(it, name));
    let [one, other] = both("/http");
    assert!(Arc::ptr_eq(&one, &other));
    let [one, other] = both("/narrow");
    assert!(!Arc::ptr_eq(&one.router, &other.router));
}

#[test]
fn a_policy_of_one_listener_changes_nothing_at_others() {
    let one = at_both(&rules_at_one(2));
    let mut with_policy = one.clone();
    let target = PolicyTarget::Listener(narrow_key());
    with_policy.insert(policy("own", target, upstream(30, 0)).into());
    let (mut compiler, resolved) = (Compiler::default(), Resolved::default());
    let [before, after] =
        [&one, &with_policy].map(|it| compiler.compile(it, &resolved, &options()));
    let both = |name| [&before, &after].map(|it| compiled(it, name));
    let [first, second] = both("/http");
    assert!(Arc::ptr_eq(&first, &second));
    let [first, second] = both("/narrow");
    assert!(!Arc::ptr_eq(&first, &second));
}

/// While a controller is replaced, some objects may have the form of the one and some that of the other.
#[test]
fn rules_of_both_forms_serve_at_one_listener() {
    let mut model = super::model();
    let http = listener("http", None).key;
    let mut shared = route("shop", 0, "/shared", Vec::new());
    on(&mut shared, std::slice::from_ref(&http));
    let former = route("shop", 1, "/former", Vec::new());
    let former = Route {
        key: former.key.at(&http),
        ..former
    };
    model.insert(shared.clone().into());
    model.insert(former.into());
    let (mut compiler, resolved) = (Compiler::default(), Resolved::default());
    let snapshot = compiler.compile(&model, &resolved, &options());
    let names = |snapshot: &Snapshot| {
        let listener = compiled(snapshot, "/http");
        let names = listener.rules.entries().map(|(_, it)| it.name.to_string());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let expected = ["HTTPRoute/app/shop/0", "HTTPRoute/app/shop/1"];
    assert_eq!(names(&snapshot), expected);
    // Even if it is one rule: both say the same.
    let both = Route {
        key: shared.key.at(&http),
        ..shared
    };
    model.insert(both.clone().into());
    let snapshot = compiler.compile(&model, &resolved, &options());
    assert_eq!(snapshot.rules.rules, 2);
    model.remove(Kind::Route, both.key.as_str());
    let snapshot = compiler.compile(&model, &resolved, &options());
    assert_eq!(names(&snapshot), expected);
}
