//! The order of runs: scenario by scenario, round by round, in each every peer once in every variant.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};

use crate::args::{ReportArgs, RunArgs};
use crate::measure::Method;
use crate::output::{create_folder, print_line};
use crate::paths::PathArgs;
use crate::peers::{self, Peer};
use crate::record::{BenchRecord, PeerInfo, Run, Settings, Skipped};
use crate::scenario::{Case, read_folder};
use crate::stats::Spread;
use crate::turns::{self, Turn};
use crate::{load, machine, process, report, syscalls};

/// Runs the selected scenarios and records their results, for `bench run`.
pub(crate) fn run(args: &RunArgs) -> Result<()> {
    // Relays and origin are this binary.
    let optimised = !cfg!(debug_assertions);
    ensure!(
        optimised || args.quick,
        "the floor would be slow: cargo run --release -p bench"
    );
    process::end_with_children()?;
    process::raise_open_files();
    let cases = chosen_cases(args)?;
    let method = method(args);
    let mut record = BenchRecord {
        started: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        machine: machine::describe(),
        settings: settings(args, &method),
        peers: Vec::new(),
        skipped: Vec::new(),
        runs: Vec::new(),
    };
    let present = present_peers(args, &mut record)?;
    if !method.count_syscalls
        && let Some(why) = syscalls::unable()
    {
        skip(
            &mut record,
            "all",
            "all",
            &format!("system calls are not counted: {why}"),
        );
    }
    create_folder(&args.out)?;
    let path = args.out.join(format!("{}.json", record.started));
    for variants in cases.chunk_by(|a, b| a.id == b.id) {
        run_scenario(variants, &present, &method, &mut record, &path)?;
    }
    record.save(&path)?;
    print_line(&format!("\nrecord: {}", path.display()));
    let (from, out) = (vec![path], args.out.clone());
    report::report(&ReportArgs {
        from,
        out,
        places: args.places.clone(),
    })?;
    let failed = record.runs.iter().filter(|run| run.result.is_err()).count();
    ensure!(
        failed == 0,
        "{failed} runs failed: their reasons are above, and in the report"
    );
    Ok(())
}

/// Prints the scenarios and their cases, for `bench list`.
pub(crate) fn list(places: &PathArgs) -> Result<()> {
    print_line("scenarios:");
    for case in read_folder(&places.scenarios_folder)? {
        let missing = load::missing(case.load.with).unwrap_or_default();
        print_line(&format!("  {:<18} {}  {missing}", case.name(), case.title));
    }
    print_line("\npeers:");
    for peer in peers::all(places) {
        let version = peer
            .version()
            .unwrap_or_else(|error| format!("missing: {error:#}"));
        print_line(&format!("  {:<18} {version}", peer.name()));
    }
    if let Some(why) = syscalls::unable() {
        print_line(&format!("\nsystem calls cannot be counted: {why}"));
    }
    Ok(())
}

fn chosen_cases(args: &RunArgs) -> Result<Vec<Case>> {
    let mut cases = read_folder(&args.places.scenarios_folder)?;
    for selection in &args.scenarios {
        let known = cases.iter().any(|case| is_selected(case, selection));
        ensure!(known, "unknown scenario {selection}: bench list shows all");
    }
    let all = args.scenarios.is_empty();
    cases.retain(|case| {
        all || args
            .scenarios
            .iter()
            .any(|selection| is_selected(case, selection))
    });
    Ok(cases)
}

fn is_selected(case: &Case, selection: &str) -> bool {
    case.id.eq_ignore_ascii_case(selection) || case.name().eq_ignore_ascii_case(selection)
}

fn method(args: &RunArgs) -> Method {
    let quick = args.quick;
    let seconds = |given: Option<u64>, usual| Duration::from_secs(given.unwrap_or(usual).max(1));
    let mut load_cores = args.load_cores.clone();
    if load_cores.is_empty() {
        let proxy = args.proxy_cores.first().copied().unwrap_or(0);
        load_cores = (0..machine::cores())
            .filter(|core| *core != proxy)
            .collect();
    }
    if load_cores.is_empty() {
        load_cores.push(0);
    }
    Method {
        duration: seconds(args.seconds, if quick { 1 } else { 5 }),
        slice: Duration::from_millis(args.slice.get()),
        warm_up: seconds(args.warm_up, 1),
        quiet_timeout: Duration::from_secs(if quick { 0 } else { 30 }),
        proxy_cores: args.proxy_cores.clone(),
        load_cores,
        origin: args.origin,
        count_syscalls: syscalls::unable().is_none(),
    }
}

fn settings(args: &RunArgs, method: &Method) -> Settings {
    Settings {
        rounds: args.rounds.unwrap_or(if args.quick { 2 } else { 10 }),
        seconds: method.duration.as_secs(),
        slice_ms: args.slice.get(),
        warm_up: method.warm_up.as_secs(),
        origin: method.origin.name().to_owned(),
        proxy_cores: method.proxy_cores.clone(),
        load_cores: method.load_cores.clone(),
        quick: args.quick,
    }
}

/// The requested peers that are installed; missing ones are printed and recorded.
fn present_peers(args: &RunArgs, record: &mut BenchRecord) -> Result<Vec<Box<dyn Peer>>> {
    let mut list = peers::all(&args.places);
    for selection in &args.peers {
        let known = list
            .iter()
            .any(|peer| peers::is_selected_by(peer.as_ref(), selection));
        ensure!(known, "unknown peer {selection}: bench list shows all");
    }
    let is_selected_peer = |peer: &dyn Peer| {
        args.peers
            .iter()
            .any(|selection| peers::is_selected_by(peer, selection))
    };
    list.retain(|peer| args.peers.is_empty() || is_selected_peer(peer.as_ref()));
    list.retain(|peer| match peer.version() {
        Ok(version) => {
            let (name, role) = (peer.name().to_owned(), peer.role());
            record.peers.push(PeerInfo {
                name,
                role,
                version,
            });
            true
        }
        Err(error) => {
            skip(record, "all", peer.name(), &format!("{error:#}"));
            false
        }
    });
    ensure!(
        !list.is_empty(),
        "none of the peers is installed: see bench/README.md"
    );
    Ok(list)
}

fn skip(record: &mut BenchRecord, case: &str, peer: &str, why: &str) {
    print_line(&format!("!! SKIPPED {case} {peer}: {why}"));
    let (case, peer, why) = (case.to_owned(), peer.to_owned(), why.to_owned());
    record.skipped.push(Skipped { case, peer, why });
}

/// Runs all variants of a scenario. They take turns like the peers do, so that they too can be
/// compared in pairs.
fn run_scenario(
    variants: &[Case],
    present: &[Box<dyn Peer>],
    method: &Method,
    record: &mut BenchRecord,
    path: &Path,
) -> Result<()> {
    let mut turns = Vec::new();
    for case in variants {
        print_line(&format!("\n== {} {}", case.name(), case.title));
        let able = capable_peers(case, present, method, record);
        turns.extend(able.into_iter().map(|peer| Turn { case, peer }));
    }
    let mut ready = turns.clone();
    for number in 0..record.settings.rounds {
        let results = turns::round(&ready, method, number)?;
        let mut good = Vec::new();
        for (turn, result) in ready.into_iter().zip(results) {
            // One failure suffices; repeating it costs time.
            if result.is_ok() {
                good.push(turn);
            }
            let run = Run {
                case: turn.case.name(),
                peer: turn.peer.name().to_owned(),
                round: number,
                result,
            };
            print_run(&run, record.settings.rounds);
            record.runs.push(run);
        }
        record.save(path)?;
        ready = good;
    }
    for Turn { case, peer } in turns {
        summarise(case, peer, record);
    }
    Ok(())
}

/// The peers that can run this case; the others are printed and recorded with the reason.
fn capable_peers<'a>(
    case: &Case,
    present: &'a [Box<dyn Peer>],
    method: &Method,
    record: &mut BenchRecord,
) -> Vec<&'a dyn Peer> {
    let for_all = load::missing(case.load.with).or_else(|| method.origin.unable(case));
    let cores = method.proxy_cores.len();
    let short = (case.workers > cores)
        .then(|| format!("{} workers need as many --proxy-cores", case.workers));
    if let Some(why) = for_all.map(str::to_owned).or(short) {
        skip(record, &case.name(), "all", &why);
        return Vec::new();
    }
    let mut able = Vec::new();
    for peer in present.iter().map(AsRef::as_ref) {
        let chosen = case.peers.is_empty() || case.peers.iter().any(|name| name == peer.name());
        match peer.unable(case) {
            _ if !chosen => {}
            Some(why) => skip(record, &case.name(), peer.name(), why),
            None => able.push(peer),
        }
    }
    able
}

fn print_run(run: &Run, rounds: usize) {
    let head = format!(
        "{:>3}/{rounds} {:<15} {:<17}",
        run.round + 1,
        run.case,
        run.peer
    );
    let measured = match &run.result {
        Err(error) => return print_line(&format!("{head} !! FAILED: {error}")),
        Ok(measured) => measured,
    };
    let (cpu, rate) = (measured.cpu_us, measured.rate());
    let mut line = format!("{head} {cpu:>9.2} µs CPU/request {rate:>9.0}/s");
    if let Some(latency) = &measured.latency {
        let p99 = latency.at(0.99).unwrap_or(f64::NAN);
        let _ = write!(line, "  p99 {p99:>8.0} µs");
    }
    for (name, value) in &measured.extra {
        let _ = write!(line, "  {name} {value:.0}");
    }
    if let Some(noise) = &measured.noise {
        let _ = write!(line, "  [noisy {noise}]");
    }
    print_line(&line);
}

fn summarise(case: &Case, peer: &dyn Peer, record: &BenchRecord) {
    let (case, peer) = (case.name(), peer.name());
    let runs = record
        .runs
        .iter()
        .filter(|run| run.case == case && run.peer == peer);
    let values = runs.filter_map(|run| Some(run.result.as_ref().ok()?.cpu_us));
    if let Some(Spread {
        median, min, max, ..
    }) = Spread::of(values)
    {
        print_line(&format!(
            "  {case:<15} {peer:<17} median {median:>9.2} µs [{min:.2} to {max:.2}]"
        ));
    }
}
