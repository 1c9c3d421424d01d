//! Rewrites of paths: whatever pattern, substitution and path are, the result is a path that a client could have
//! sent, and a plain text is replaced as `str::replace` does.

use proxy::policy::normalise::{Target, normalise_target};
use proxy::policy::path_rewrite::{
    BadRewrite, PathRewrite, ResultLimits, RewriteScratch, Rewritten, rewrite,
};
use xds::model::{EscapedSlash, PathOptions, PathRewriteRule, Substitution};

/// Checks `data`: a byte that picks the options, and pattern, substitution and target with zeros between them.
pub(crate) fn check(data: &[u8]) {
    let [pick, rest @ ..] = data else {
        return;
    };
    let mut parts = rest.splitn(3, |byte| *byte == 0);
    let mut text = || std::str::from_utf8(parts.next()?).ok();
    let (Some(pattern), Some(substitution), Some(target)) = (text(), text(), text()) else {
        return;
    };
    let options = PathOptions {
        merge_slashes: pick & 1 != 0,
        escaped_slash: if pick & 2 == 0 {
            EscapedSlash::Keep
        } else {
            EscapedSlash::Reject
        },
    };
    let limits = ResultLimits {
        options,
        bytes: 256,
    };
    let mut normal = Vec::new();
    let Ok(target) = normalise_target(target.as_bytes(), options, &mut normal) else {
        return;
    };
    let Ok(substitution) = Substitution::parse(substitution) else {
        return;
    };
    let Ok(rule) = PathRewriteRule::parse(pattern, substitution) else {
        return;
    };
    let rule = PathRewrite::Rule(rule);
    let mut scratch = RewriteScratch::default();
    let result = result_of(&rule, target, limits, &mut scratch);
    let again = result_of(&rule, target, limits, &mut scratch);
    assert_eq!(result, again, "memory changes nothing");
    let Ok((rewritten, out)) = &result else {
        return;
    };
    if *rewritten == Rewritten::Unchanged {
        assert_eq!(out, target.text);
        return;
    }
    assert!(out.len() <= limits.bytes && out.starts_with('/'), "{out}");
    let mut normal = Vec::new();
    let again = normalise_target(out.as_bytes(), options, &mut normal);
    let again = again.expect("a client could send it").text.as_ptr();
    assert_eq!(again, out.as_ptr(), "{out} is normal");
    check_plain(&rule, target, options, out);
}

fn result_of(
    rule: &PathRewrite,
    target: Target<'_>,
    limits: ResultLimits,
    scratch: &mut RewriteScratch,
) -> Result<(Rewritten, String), BadRewrite> {
    let mut out = Vec::new();
    let rewritten = rewrite(rule, target, limits, scratch, &mut out)?;
    Ok((rewritten, String::from_utf8(out).expect("ASCII")))
}

/// A pattern and a substitution without operators are plain texts.
fn check_plain(rule: &PathRewrite, target: Target<'_>, options: PathOptions, out: &str) {
    let PathRewrite::Rule(rule) = rule else {
        return;
    };
    let is_plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'/')
    };
    let (pattern, substitution) = (rule.pattern(), rule.substitution().as_str());
    if pattern.is_empty() || !is_plain(pattern) || !is_plain(substitution) {
        return;
    }
    let mut expected = target.path().replace(pattern, substitution);
    if target.path().contains(pattern) {
        // A new path begins with one slash.
        expected = format!("/{}", expected.trim_start_matches('/'));
    }
    if let Some(query) = target.query() {
        expected.push('?');
        expected.push_str(query);
    }
    let mut normal = Vec::new();
    let expected = normalise_target(expected.as_bytes(), options, &mut normal);
    assert_eq!(out, expected.expect("it was a result").text);
}
