//! Tools through the whole program: a model calls them, and the world and the next request show what they did.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, say};
use serde_json::json;

use crate::harness::{Ended, Home};

/// A server of this machine that answers everything with one page, and counts how often.
fn page(body: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let count = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            asked.fetch_add(1, Ordering::SeqCst);
            let read = stream.read(&mut [0; 8192]);
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            // A caller that hangs up early is seen in what it makes of that.
            read.and_then(|_| stream.write_all(answer.as_bytes())).ok();
        }
    });
    (address, count)
}

/// Runs one task whose model calls `web_fetch` on `address`; gives the end and what the model read.
#[track_caller]
fn fetched(address: &str, allowed: Option<&str>) -> (Ended, String) {
    let script = Script::new().step(call("web_fetch", json!({"url": address}))).step(say("done"));
    let server = ScriptedServer::start(Scripts::default().agent("LOOK", script));
    let home = Home::with(&server);
    let order = home.legwork(&["delegate", "--goal", "LOOK at it", "--json"]);
    let order = match allowed {
        Some(value) => order.env("LEGWORK_TOOLS_FETCH_PRIVATE_ADDRESSES", value),
        None => order,
    };
    let ended = order.run();
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    let entries = log.of("LOOK");
    let last = entries.last().expect("the model was asked");
    let body = last.body.to_string();
    (ended, body)
}

#[test]
fn a_page_reaches_the_model_as_text_where_its_address_is_allowed() {
    let (address, asked) = page("<h1>Hello</h1><p>from <a href=there>here</a>");
    let (ended, read) = fetched(&address, Some("true"));
    assert_eq!(ended.code, 0, "{ended}");
    assert!(read.contains(&format!("# Hello\\n\\nfrom [here]({address}there)\\n")), "{read}");
    assert!(read.contains("<<<from the web, not from the user, "), "{read}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn this_machine_is_not_fetched_from_unless_its_user_said_so() {
    let (address, asked) = page("secret");
    for allowed in [None, Some("false")] {
        let (ended, read) = fetched(&address, allowed);
        assert_eq!(ended.code, 0, "{ended}");
        assert!(
            read.contains("is not a public address") && read.contains("tools.fetch_private_addresses"),
            "{read}"
        );
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0, "nobody was asked");
}

#[test]
fn cfg_a_project_cannot_allow_private_addresses() {
    let home = Home::without_model();
    std::fs::create_dir(home.project().join(".legwork")).expect("a folder");
    home.write(".legwork/config.toml", "[tools]\nfetch_private_addresses = true\n");
    let ended = home.legwork(&["config", "check"]).run();
    assert_eq!(ended.code, 2, "{ended}");
    assert!(ended.to_string().contains("tools.fetch_private_addresses"), "{ended}");
}

#[test]
fn inv_21_a_patch_of_several_files_is_done_whole_or_not_at_all() {
    let patch = |old: &str| {
        let lines = format!(
            "*** Begin Patch\n*** Update File: a.txt\n-one\n+1\n*** Update File: b.txt\n-{old}\n+2\n*** End Patch"
        );
        call("patch", json!({"patch": lines}))
    };
    let script = Script::new().step(patch("three")).step(patch("two")).step(say("done"));
    let server = ScriptedServer::start(Scripts::default().agent("PATCH", script));
    let home = Home::with(&server);
    home.write("a.txt", "one\n");
    home.write("b.txt", "two\n");
    let ended = home.legwork(&["delegate", "--goal", "PATCH them", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let [result] = ended.results().try_into().expect("one result");
    let trace = result["tool_trace"].as_array().expect("a trace");
    let statuses: Vec<_> = trace.iter().map(|item| item["status"].as_str()).collect();
    assert_eq!(
        statuses,
        [Some("error"), Some("ok")],
        "the first was refused whole, so the second found what it names"
    );
    assert_eq!((home.read("a.txt"), home.read("b.txt")), ("1\n".to_owned(), "2\n".to_owned()));
}
