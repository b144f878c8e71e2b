//! Models by name, by fallback and by key: which provider a child is sent to, with which key and in which words.

use legwork_testkit::server::{
    Log, ProviderError, Reply, Script, ScriptedServer, Scripts, call, gate, say, status, status_with,
    unauthorized,
};
use serde_json::{Value, json};

use crate::harness::{Home, KEY};

const FAR_KEY: &str = "sk-far-77aa-of-the-other-server";

fn answers(text: &str) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::always(say(text))))
}

/// The keys that a server was brought, in the order of the requests.
fn keys(log: &Log) -> Vec<Option<&str>> {
    log.entries().iter().map(|entry| entry.key.as_deref()).collect()
}

fn models(log: &Log) -> Vec<&str> {
    log.entries().iter().filter_map(|entry| entry.body["model"].as_str()).collect()
}

#[test]
fn cred_20_cred_21_cred_23_each_task_goes_to_its_route_with_the_key_of_that_origin() {
    let (near, far) = (answers("near"), answers("far"));
    let home = Home::with(&near);
    let address = far.base_url();
    home.write(
        "config.toml",
        format!(
            "[delegation.routes.near]\nmodel = 'near-model'\n\
             [delegation.routes.far]\nmodel = 'far-model'\nbase_url = '{address}'\napi_key = '{FAR_KEY}'\n\
             [delegation.routes.named]\nmodel = 'named-model'\nbase_url = '{address}'\napi_key_env = 'FAR'\n\
             [delegation.routes.free]\nmodel = 'free-model'\nbase_url = '{address}'\napi_key = ''\n"
        ),
    );
    home.write(
        "tasks.toml",
        "route = 'far'\n[[tasks]]\ngoal = 'first'\n[[tasks]]\ngoal = 'second'\nroute = 'near'\n\
         [[tasks]]\ngoal = 'third'\nroute = 'named'\n[[tasks]]\ngoal = 'fourth'\nroute = 'free'\n",
    );
    let order = home.legwork(&["--config", "config.toml", "delegate", "tasks.toml", "--json"]);
    let ended = order.env("FAR", "sk-from-the-variable").set("max_concurrent_children", 1).run();
    assert_eq!(ended.code, 0, "{ended}");
    let answers: Vec<_> = ended.results().iter().map(|entry| entry["summary"].clone()).collect();
    assert_eq!(answers, ["far", "near", "far", "far"]);
    assert_eq!((models(&near.log()), keys(&near.log())), (vec!["near-model"], vec![Some(KEY)]));
    assert_eq!(models(&far.log()), ["far-model", "named-model", "free-model"]);
    assert_eq!(keys(&far.log()), [Some(FAR_KEY), Some("sk-from-the-variable"), None]);
    let id = home.only_delegation();
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    let of = |index: usize| shown["children"][index]["model"].clone();
    assert_eq!([of(0), of(1)], ["openai-compatible/far-model", "openai/near-model"]);
    let stored = std::fs::read(home.database()).expect("the database is there");
    let found = stored.windows(FAR_KEY.len()).any(|part| part == FAR_KEY.as_bytes());
    assert!(!found, "only the name of a key's source is stored");
}

/// Proves TOOL-20.
#[test]
fn cred_23_sec_05_a_route_to_another_origin_without_a_key_is_refused_before_any_request() {
    let (near, far) = (answers("near"), answers("far"));
    let home = Home::with(&near);
    let config = format!("[delegation.routes.far]\nmodel = 'm'\nbase_url = '{}'\n", far.base_url());
    home.write("config.toml", config);
    home.write("tasks.toml", "[[tasks]]\ngoal = 'first'\n[[tasks]]\ngoal = 'second'\nroute = 'far'\n");
    let ended = home.legwork(&["--config", "config.toml", "delegate", "tasks.toml"]).run();
    assert_eq!(ended.code, 2, "{ended}");
    for words in ["tasks[1]", "`delegation.routes.far`", "has no key for it"] {
        assert!(ended.stderr.contains(words), "{words}: {ended}");
    }
    assert!(near.log().entries().is_empty() && far.log().entries().is_empty());
    assert!(home.list().is_empty());
}

#[test]
fn task_15_cred_21_an_unknown_route_is_told_before_any_key_is_looked_for() {
    let home = Home::without_model();
    home.write(
        "config.toml",
        "[delegation.routes.fast]\nmodel = 'm'\n[delegation.routes.big]\nmodel = 'm'\n",
    );
    home.write("tasks.toml", "[[tasks]]\ngoal = 'first'\nroute = 'fats'\n");
    // No model and no key are configured, and that is not what it complains about.
    let ended = home.legwork(&["--config", "config.toml", "delegate", "tasks.toml"]).run();
    assert_eq!(ended.code, 2, "{ended}");
    assert!(ended.stderr.contains("there is no route \"fats\"; the routes are `big`, `fast`"), "{ended}");
}

/// The schema of `delegate_task` in a request.
fn schema(body: &Value) -> Value {
    let tools = body["tools"].as_array().expect("tools are offered");
    let of = tools.iter().find(|tool| tool["function"]["name"] == "delegate_task").expect("it may delegate");
    of["function"]["parameters"].clone()
}

#[test]
fn cred_21_cred_22_tool_03_a_model_chooses_among_the_routes_it_is_told_of() {
    let calls = Script::new()
        .step(call("delegate_task", json!({"tasks": [{"goal": "a piece of work", "route": "nowhere"}]})))
        .step(call(
            "delegate_task",
            json!({"route": "slow", "tasks": [
                {"goal": "a piece of work"}, {"goal": "another piece of work", "route": "fast"}
            ]}),
        ))
        .step(say("all is done"));
    let server = ScriptedServer::start(Scripts::default().agent("the prompt", calls));
    let home = Home::with(&server);
    home.write(
        "config.toml",
        "[delegation.routes.slow]\nmodel = 'slow-model'\ndescription = 'thinks; sk-abcdefghijklmnopqrstuvwx'\n\
         [delegation.routes.fast]\nmodel = 'fast-model'\n",
    );
    let ended = home.legwork(&["--config", "config.toml", "run", "this is the prompt"]).run();
    assert_eq!((ended.code, ended.stdout.trim()), (0, "all is done"), "{ended}");
    let log = server.log();
    let prompt = log.of("the prompt");
    let route = &schema(&prompt[0].body)["properties"]["tasks"]["items"]["properties"]["route"];
    assert_eq!(route["enum"], json!(["fast", "slow"]));
    let told = route["description"].as_str().expect("it is described");
    assert!(told.contains("slow: thinks") && !told.contains("sk-abc"), "{told}");
    let refused = prompt[1].body["messages"].to_string();
    assert!(refused.contains("there is no route") && refused.contains("`fast`, `slow`"), "{refused}");
    let mut others = models(&log);
    others.retain(|model| *model != "test");
    others.sort_unstable();
    assert_eq!(others, ["fast-model", "slow-model"]);
}

#[test]
fn tool_03_without_routes_none_is_offered() {
    let server = answers("ok");
    let home = Home::with(&server);
    assert_eq!(home.legwork(&["run", "any"]).run().code, 0);
    let schema = schema(&server.log().entries()[0].body);
    assert!(schema["properties"]["tasks"]["items"]["properties"].get("route").is_none(), "{schema}");
}

#[test]
fn a_key_of_children_that_differs_in_nothing_else_does_not_replace_the_conversations() {
    let delegates = Script::new()
        .step(call("delegate_task", json!({"goal": "a piece of work to be done"})))
        .step(say("all is done"));
    let server = ScriptedServer::start(Scripts::default().agent("the prompt", delegates));
    let home = Home::with(&server);
    let order = home.legwork(&["run", "this is the prompt"]).env("LEGWORK_DELEGATION_PROVIDER", "openai");
    let order = order.env("LEGWORK_DELEGATION_MODEL", "test").env("LEGWORK_DELEGATION_API_KEY", FAR_KEY);
    let ended = order.env("LEGWORK_DELEGATION_BASE_URL", &server.base_url()).run();
    assert_eq!(ended.code, 0, "{ended}");
    let log = server.log();
    let of = |marker: &str| log.of(marker).iter().map(|entry| entry.key.as_deref()).collect::<Vec<_>>();
    assert_eq!(of("the prompt"), [Some(KEY), Some(KEY)]);
    let child: Vec<_> = log.entries().iter().filter(|entry| entry.agent.is_none()).collect();
    assert_eq!(child.iter().map(|entry| entry.key.as_deref()).collect::<Vec<_>>(), [Some(FAR_KEY)]);
}

/// A server that refuses everything.
fn failing(reply: Reply) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::always(reply)))
}

#[test]
fn cred_14_cfg_20_the_next_of_the_chain_answers_where_another_may_help() {
    let error = |kind: &str, code: &str| ProviderError::new(kind, "no").code(code);
    let cases = [
        ("auth", unauthorized()),
        ("billing", status_with(402, error("billing_error", "insufficient_quota"))),
        ("model_not_found", status_with(404, error("invalid_request_error", "model_not_found"))),
    ];
    for (reason, reply) in cases {
        let (first, second) = (failing(reply), answers("from the second"));
        let home = Home::with(&first);
        let address = second.base_url();
        home.write(
            "config.toml",
            format!(
                "[[delegation.fallback_providers]]\nmodel = 'second-model'\nbase_url = '{address}'\napi_key = '{FAR_KEY}'\n"
            ),
        );
        let order = home.legwork(&["--config", "config.toml", "delegate", "--goal", "work", "--json"]);
        let ended = order.run();
        assert_eq!(ended.code, 0, "{reason}: {ended}");
        let entry = &ended.results()[0];
        assert_eq!(entry["summary"], "from the second", "{reason}");
        // Usage and calls are counted once, for the answer that was stored.
        assert_eq!(
            (&entry["api_calls"], &entry["tokens"]),
            (&json!(1), &json!({"input": 100, "output": 20}))
        );
        assert!(entry["model"].as_str().is_some_and(|model| model.contains("second-model")), "{entry}");
        assert_eq!(keys(&first.log()), [Some(KEY)], "{reason}: each link has its own key");
        assert_eq!(keys(&second.log()), [Some(FAR_KEY)]);
    }
}

#[test]
fn cred_14_a_conversation_at_fault_is_not_sent_on() {
    let (first, second) = (failing(status(400, "this request is malformed")), answers("never"));
    let home = Home::with(&first);
    let config = format!(
        "[[delegation.fallback_providers]]\nmodel = 'm'\nbase_url = '{}'\napi_key = 'k'\n",
        second.base_url()
    );
    home.write("config.toml", config);
    let ended = home.legwork(&["--config", "config.toml", "delegate", "--goal", "work", "--json"]).run();
    assert_eq!((ended.code, &ended.results()[0]["failure_reason"]), (1, &json!("bad_request")), "{ended}");
    assert!(second.log().entries().is_empty());
}

#[test]
fn cred_14_a_conversation_has_a_chain_that_pinned_children_do_not_borrow() {
    let delegates = Script::new()
        .step(call("delegate_task", json!({"goal": "a piece of work to be done"})))
        .step(say("all is done"));
    let (first, second) =
        (failing(unauthorized()), ScriptedServer::start(Scripts::default().agent("the prompt", delegates)));
    let home = Home::with(&first);
    home.write(
        "config.toml",
        format!(
            "[[model.fallback_providers]]\nmodel = 'second-model'\nbase_url = '{}'\napi_key = '{FAR_KEY}'\n",
            second.base_url()
        ),
    );
    let run = |pinned: &str| {
        let order = home.legwork(&["--config", "config.toml", "run", "this is the prompt", "--json"]);
        order.env("LEGWORK_DELEGATION_MODEL", pinned).run()
    };
    let borrowed = run("").json();
    assert_eq!(borrowed["delegations"][0]["results"][0]["status"], "completed", "{borrowed}");
    let pinned = run("pinned").json();
    assert_eq!(pinned["delegations"][0]["results"][0]["failure_reason"], "auth", "{pinned}");
}

#[test]
fn cred_14_when_all_of_a_chain_fail_each_of_them_is_told() {
    let (first, second) = (failing(unauthorized()), failing(unauthorized()));
    let home = Home::with(&first);
    let config = format!(
        "[[delegation.fallback_providers]]\nmodel = 'second-model'\nbase_url = '{}'\napi_key = 'k'\n",
        second.base_url()
    );
    home.write("config.toml", config);
    let ended = home.legwork(&["--config", "config.toml", "delegate", "--goal", "work", "--json"]).run();
    assert_eq!(ended.code, 1, "{ended}");
    let error = ended.results()[0]["error"].as_str().expect("an error").to_owned();
    assert!(error.contains("openai/test: ") && error.contains("openai-compatible/second-model: "), "{error}");
}

/// Proves CRED-24: what is not set in the route comes from whoever named it, each time anew.
#[test]
fn cred_24_two_callers_of_one_route_share_nothing_of_it() {
    let tasks = json!({"tasks": [{"goal": "this is piece A", "route": "fast"}, {"goal": "this is piece B"}]});
    let scripts = Scripts::default()
        .agent("the prompt", Script::new().step(call("delegate_task", tasks)).step(say("all is done")))
        .agent("piece A", Script::always(say("A is done")))
        .agent(
            "piece B",
            Script::new()
                .step(call("delegate_task", json!({"goal": "this is piece C", "route": "fast"})))
                .step(say("B is done")),
        )
        .agent("piece C", Script::always(say("C is done")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write(
        "config.toml",
        "[model]\nreasoning_effort = 'high'\n[delegation]\nmax_spawn_depth = 2\nreasoning_effort = 'low'\n\
         [delegation.routes.fast]\nmodel = 'fast-model'\n",
    );
    let ended = home.legwork(&["--config", "config.toml", "run", "this is the prompt"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let log = server.log();
    let asked = |agent: &str| {
        let body = &log.of(agent)[0].body;
        [body["model"].clone(), body["reasoning_effort"].clone()]
    };
    assert_eq!(asked("piece A"), ["fast-model", "high"]);
    assert_eq!(asked("piece B"), ["test", "low"]);
    assert_eq!(asked("piece C"), ["fast-model", "low"]);
}

/// Proves RECOV-6: what is lacking is named, not only that something is.
#[test]
fn cred_20_who_cannot_go_on_with_a_route_is_told_what_it_was_made_of() {
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::always(gate("here").say("it is done"))));
    let home = Home::with(&server);
    let address = server.base_url();
    let route = |name: &str| {
        format!("[delegation.routes.{name}]\nmodel = 'm'\nbase_url = '{address}'\napi_key_env = '{name}_2'\n")
    };
    let fallback = format!(
        "fallback_providers = [{{ provider = 'openai-compatible', model = 'other', base_url = '{address}', api_key = '' }}]\n"
    );
    home.write("config.toml", format!("{}{fallback}{}", route("near"), route("far")));
    home.write(
        "tasks.toml",
        "[[tasks]]\ngoal = 'first'\nroute = 'near'\n[[tasks]]\ngoal = 'second'\nroute = 'far'\n\
         [[tasks]]\ngoal = 'third'\nroute = 'near'\n",
    );
    let order = home.legwork(&["--config", "config.toml", "delegate", "tasks.toml"]);
    let running = order.env("near_2", "sk-near").env("far_2", "sk-far").start();
    let id = running.delegation();
    server.gate("here").wait_waiting(3);
    running.kill();
    let looked = home.legwork(&["ps"]).run();
    for name in ["near_2", "far_2"] {
        assert_eq!(looked.stderr.matches(&format!("the key in {name}, ")).count(), 1, "{looked}");
    }
    let refused = home.legwork(&["results", &id, "--wait", "--json"]).run();
    let words = ["near_2", &address, "delegation.routes.near", "openai-compatible/other"];
    refused.assert_refused(3, "no_model", &words);
    server.gate("here").open();
    let order = home.legwork(&["--config", "config.toml", "results", &id, "--wait"]);
    assert_eq!(order.env("near_2", "sk-near").env("far_2", "sk-far").run().code, 0);
}
