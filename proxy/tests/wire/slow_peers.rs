//! Many slow peers use little memory and do not slow down others.

use std::time::{Duration, Instant};

use crate::support::{Client, Reply, gateway, on_both_drivers, origin};

const SLOW: usize = 300;

/// Far above anything a loaded machine needs for one request, far below any timeout.
const PROMPT: Duration = Duration::from_secs(2);

#[track_caller]
fn is_prompt(neighbour: &mut Client) {
    for _ in 0..20 {
        let started = Instant::now();
        neighbour.gets("/").expects(200);
        assert!(
            started.elapsed() < PROMPT,
            "a neighbour waited {:?}",
            started.elapsed()
        );
    }
}

on_both_drivers! {
    fn slow_heads_do_not_slow_down_others(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let before = gateway.anonymous_bytes();
        let mut slow: Vec<Client> = (0..SLOW).map(|_| gateway.client()).collect();
        for client in &mut slow {
            client.sends("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ");
        }
        is_prompt(&mut gateway.client());
        let per_connection = gateway.anonymous_bytes().saturating_sub(before) / SLOW as u64;
        // Two pages, working memory and a future, and the remains of the very first requests.
        assert!(per_connection < 48 * 1024, "{per_connection} bytes for one unfinished head");
        for client in &mut slow {
            client.sends("x\r\n\r\n").expects(200);
        }
    }

    fn slow_bodies_do_not_slow_down_others(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut slow: Vec<Client> = (0..SLOW).map(|_| gateway.client()).collect();
        for client in &mut slow {
            client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha");
        }
        origin.waits_for_requests(SLOW);
        is_prompt(&mut gateway.client());
        for client in &mut slow {
            client.sends("lf").expects(200);
        }
    }

    fn slow_origins_do_not_slow_down_others(driver) {
        let origin = origin().replies_to("/slow", Reply::at_once().stalls());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut slow: Vec<Client> = (0..SLOW).map(|_| gateway.client()).collect();
        for client in &mut slow {
            client.gets("/slow");
        }
        origin.waits_for_requests(SLOW);
        is_prompt(&mut gateway.client());
    }

    fn idle_connections_use_little_memory(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        gateway.client().gets("/").expects(200);
        let before = gateway.anonymous_bytes();
        let mut idle: Vec<Client> = (0..SLOW).map(|_| gateway.client()).collect();
        for client in &mut idle {
            client.gets("/").expects(200);
        }
        let per_connection = gateway.anonymous_bytes().saturating_sub(before) / SLOW as u64;
        // A connection that was busy a moment ago may hold its two buffers for a second more.
        assert!(per_connection < 2 * 68 * 1024, "{per_connection} bytes for one idle connection");
        for client in &mut idle {
            client.gets("/").expects(200);
        }
    }

    fn closed_connections_leave_no_memory_behind(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        gateway.client().gets("/").expects(200);
        let before = gateway.open_files();
        for _ in 0..500 {
            gateway.client().gets("/").expects(200);
        }
        for _ in 0..200 {
            gateway.client().resets();
        }
        gateway.waits_for_open_files_at_most(before + 8);
    }
}
