//! An assignment becomes an agent: its messages, its tools, its rights, and what siblings share.

use crate::fakes::{Bench, FakeLine, FakeModel, FakeSteps, FakeTool, Say, allowance, call, rights, route};
use legwork_agent::models::{Model, ModelRequest};
use legwork_agent::process::Shells;
use legwork_agent::tools::{Commands, DelegateOptions, DelegateTool, Tool, Toolbox};
use legwork_agent::turn::TurnLimits;
use legwork_agent::worker::{LocalWorker, Pictures, WorkerParts};
use legwork_core::batch::{Isolation, Rights, Route, Setting, Task};
use legwork_core::ids::{ChildId, DelegationId, SessionId};
use legwork_core::message::{Author, Image, ImageSource, Part};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{Assignment, Line, Steps, Worker};
use legwork_core::report::Report;
use legwork_testkit::memory::MemoryStore;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

pub struct Shop {
    pub folder: TempDir,
    model: Arc<FakeModel>,
    steps: Arc<FakeSteps>,
    pub line: Arc<FakeLine>,
    rights: Rights,
    depth_max: u32,
    pictures: Pictures,
}

impl Shop {
    pub fn new(model: Arc<FakeModel>) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let rights = rights(&["look", "delegate_task"]);
        Shop {
            folder,
            model,
            steps: FakeSteps::new(),
            line: FakeLine::new(),
            rights,
            depth_max: 1,
            pictures: Pictures::ByModel,
        }
    }

    /// A shop of another process, whose store holds what the first `commits` commits of this one stored. Its model says
    /// nothing.
    pub fn after(&self, commits: usize) -> Self {
        let shop = Shop::new(FakeModel::new([]));
        Shop { steps: self.steps.until(commits), rights: self.rights.clone(), ..shop }
    }

    /// The same with a tool that changes something.
    pub fn changing(mut self) -> Self {
        self.rights.tools.insert("change".to_owned());
        self
    }

    pub fn steps(&self) -> &FakeSteps {
        &self.steps
    }

    pub fn requests(&self) -> usize {
        self.model.calls()
    }

    pub fn assignment(&self, index: usize, context: Option<&str>) -> Assignment {
        Assignment {
            child: ChildId::from_bits(index, 7),
            delegation: DelegationId::from_bits(1),
            session: SessionId::from_bits(1),
            parent: None,
            task_index: index,
            task: Task {
                goal: format!("goal {index}"),
                context: context.map(str::to_owned),
                ..Task::default()
            },
            depth: 1,
            attempt: 1,
            fence: Bench::fence(),
            setting: Setting {
                folder: self.folder.path().display().to_string(),
                route: route(),
                rights: self.rights.clone(),
                allowance: allowance(10),
                isolation: Isolation::Shared,
            },
        }
    }

    pub fn worker(&self) -> LocalWorker {
        let model = Arc::clone(&self.model);
        let models = move |route: &Route| match route.model.as_str() {
            "fake/model" => Ok(Arc::clone(&model) as Arc<dyn Model>),
            other => Err(format!("no model {other}")),
        };
        let options = DelegateOptions { depth_max: self.depth_max, ..crate::delegate_calls::OPTIONS };
        let delegate = Arc::new(DelegateTool::new(options)) as Arc<dyn Tool>;
        let shells = Shells::new(std::env::vars_os()).expect("there is a shell");
        LocalWorker::new(WorkerParts {
            store: Arc::clone(&self.steps) as Arc<dyn Steps>,
            facts: Arc::new(MemoryStore::new()),
            models: Arc::new(models),
            toolbox: Arc::new(Toolbox::new(vec![
                FakeTool::look("look", "seen"),
                FakeTool::change("change", "changed"),
                delegate,
            ])),
            commands: Commands::new(shells, Arc::new(MemoryStore::new())),
            limits: TurnLimits::default(),
            depth_max: self.depth_max,
            pictures: self.pictures,
            spill: "/nowhere".into(),
            diagnostics: self.folder.path().join("diagnostics"),
        })
    }

    pub async fn work(&self, worker: &LocalWorker, assignment: Assignment) -> Report {
        let worked = worker.work(assignment, Arc::clone(&self.line) as Arc<dyn Line>);
        worked.await.expect("it is recorded")
    }
}

fn system_text(request: &ModelRequest) -> String {
    assert_eq!(request.messages[0].author, Author::System);
    request.messages[0].plain_text()
}

/// Proves BUILD-4, BUILD-16: an empty conversation but for the system text and the goal, in the one folder it is told of.
#[tokio::test]
async fn build_16_the_system_text_has_its_parts_in_order_and_the_goal_comes_as_first_message() {
    let mut shop = Shop::new(FakeModel::new([Say::Text("done")]));
    shop.depth_max = 2;
    std::fs::write(shop.folder.path().join("AGENTS.md"), "Never touch `vendor`.").expect("written");
    std::fs::write(shop.folder.path().join("CLAUDE.md"), "not this one").expect("written");
    let report = shop.work(&shop.worker(), shop.assignment(0, Some("It is about whales."))).await;
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some("done")));
    let request = shop.model.requests().remove(0);
    let text = system_text(&request);
    let folder = shop.folder.path().display().to_string();
    let places: Vec<usize> = [
        "focused subagent",
        folder.as_str(),
        "Never touch `vendor`.",
        "When you are done",
        "depth 1 of at most 2",
        "It is about whales.",
    ]
    .iter()
    .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} is missing in {text}")))
    .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(text.trim_end().ends_with("It is about whales.") && !text.contains("not this one"), "{text}");
    assert_eq!(
        (request.messages[1].author, request.messages[1].plain_text()),
        (Author::User, "goal 0".to_owned())
    );
    assert_eq!(request.messages.len(), 2);
    // BUILD-4: nobody can be asked, nothing is remembered, and the steps are its own.
    let offered: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(["clarify", "memory", "send_message"].iter().all(|tool| !offered.contains(tool)), "{offered:?}");
    assert!(text.contains("cannot ask"), "{text}");
}

/// Proves BUILD-21.
#[tokio::test]
async fn siblings_share_their_system_message_and_their_tools_in_memory() {
    let script = [Say::Text("done"), Say::Text("done"), Say::Text("done"), Say::Text("done")];
    let shop = Shop::new(FakeModel::new(script));
    let worker = shop.worker();
    for (index, context) in [(0, None), (1, Some(" ")), (2, Some("own")), (3, None)] {
        shop.work(&worker, shop.assignment(index, context)).await;
    }
    let requests = shop.model.requests();
    assert!(Arc::ptr_eq(&requests[0].messages[0], &requests[1].messages[0]), "BUILD-21");
    assert!(Arc::ptr_eq(&requests[0].messages[0], &requests[3].messages[0]));
    assert!(Arc::ptr_eq(&requests[0].tools, &requests[2].tools));
    let shared = system_text(&requests[0]);
    assert!(system_text(&requests[2]).starts_with(&shared), "a cacheable prefix");
}

#[tokio::test]
async fn build_18_long_project_rules_are_cut_with_a_note() {
    let shop = Shop::new(FakeModel::new([Say::Text("done")]));
    std::fs::write(shop.folder.path().join("CLAUDE.md"), "a rule\n".repeat(10_000)).expect("written");
    shop.work(&shop.worker(), shop.assignment(0, None)).await;
    let text = system_text(&shop.model.requests()[0]);
    assert!(text.len() < 36 * 1024 && text.contains("[cut after 327"), "{}", text.len());
}

#[tokio::test]
async fn build_03_a_child_at_the_depth_limit_neither_sees_nor_gets_delegate_task() {
    let calls = vec![call("a", "delegate_task", json!({"goal": "a"}))];
    let shop = Shop::new(FakeModel::new([Say::Calls("", calls), Say::Text("done")]));
    shop.work(&shop.worker(), shop.assignment(0, None)).await;
    let requests = shop.model.requests();
    let offered: Vec<&str> = requests[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(offered, ["look"]);
    assert!(!system_text(&requests[0]).contains("delegate"));
    let words = shop.line.words();
    assert!(
        words.iter().any(|word| word.starts_with("ended delegate_task") && word.contains("not allowed")),
        "{words:?}"
    );
}

#[tokio::test]
async fn a_model_with_little_room_gets_a_short_text_and_the_tools_that_its_goal_names() {
    let shop = Shop::new(FakeModel::with_window(2048, [Say::Text("done"), Say::Text("done")]));
    std::fs::write(shop.folder.path().join("AGENTS.md"), "a rule").expect("written");
    let worker = Shop { depth_max: 2, ..Shop::new(Arc::clone(&shop.model)) }.worker();
    let mut assignment = shop.assignment(0, None);
    assignment.task.goal = "Use look on the file.".to_owned();
    shop.work(&worker, assignment).await;
    let mut assignment = shop.assignment(1, None);
    assignment.task.goal = "What is there?".to_owned();
    shop.work(&worker, assignment).await;
    let requests = shop.model.requests();
    assert!(system_text(&requests[0]).len() < 300 && !system_text(&requests[0]).contains("a rule"));
    assert_eq!((requests[0].tools.len(), requests[1].tools.len()), (1, 2));
}

type Spoil = fn(&mut Assignment);

/// Proves EVT-8.
#[tokio::test]
async fn what_cannot_be_set_up_is_said_and_asks_nothing() {
    let shop = Shop::new(FakeModel::new([]));
    let gone: Spoil = |assignment: &mut Assignment| assignment.setting.folder = "/no/such/folder".to_owned();
    let file: Spoil = |assignment: &mut Assignment| assignment.setting.folder = "/dev/null".to_owned();
    let unknown: Spoil =
        |assignment: &mut Assignment| assignment.setting.route.model = "other/model".to_owned();
    let cases: [(Spoil, &str); 3] = [
        (gone, "the working folder /no/such/folder cannot be used"),
        (file, "/dev/null is not a folder"),
        (unknown, "no model other/model"),
    ];
    for (spoil, words) in cases {
        let mut assignment = shop.assignment(0, None);
        spoil(&mut assignment);
        let report = shop.work(&shop.worker(), assignment).await;
        assert_eq!(report.ending, Ending::Failed(FailureKind::Setup));
        assert!(report.error.as_deref().is_some_and(|error| error.contains(words)), "{report:?}");
    }
    assert_eq!((shop.model.calls(), shop.steps.commits()), (0, 0));
}

#[tokio::test]
async fn rules_that_cannot_be_read_are_not_passed_over() {
    let shop = Shop::new(FakeModel::new([]));
    let rules = shop.folder.path().join("AGENTS.md");
    std::fs::write(&rules, "a rule").expect("written");
    make_unreadable(&rules);
    if std::fs::read(&rules).is_ok() {
        // Root reads everything, so there is nothing to see.
        return;
    }
    let report = shop.work(&shop.worker(), shop.assignment(0, None)).await;
    assert_eq!(report.ending, Ending::Failed(FailureKind::Setup));
    assert!(report.error.is_some_and(|error| error.contains("AGENTS.md cannot be read")));
}

fn make_unreadable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).expect("it is ours");
}

/// A picture of one dot.
const DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The first message of a child with these pictures, and what its line was told of them.
async fn first_message(shop: &Shop, images: &[&str]) -> (Vec<Part>, Vec<String>) {
    let mut assignment = shop.assignment(0, None);
    assignment.task.images = images.iter().map(|image| (*image).to_owned()).collect();
    shop.work(&shop.worker(), assignment).await;
    let first = shop.model.requests()[0].messages[1].parts.clone();
    (first, shop.line.words().into_iter().filter(|word| word.contains("picture")).collect())
}

/// A shop with a picture, a text that calls itself one, and a folder.
fn gallery(rights_to: &[&str], pictures: Pictures) -> Shop {
    let mut shop = Shop::new(FakeModel::new([Say::Text("done")]));
    (shop.rights, shop.pictures) = (rights(rights_to), pictures);
    let bytes = [0x89, b'P', b'N', b'G', 1, 2, 3];
    std::fs::write(shop.folder.path().join("dot.png"), bytes).expect("written");
    std::fs::write(shop.folder.path().join("key.png"), "password=1").expect("written");
    shop
}

fn text_of(part: &Part) -> &str {
    match part {
        Part::Text { text } => text,
        other => panic!("{other:?} is no text"),
    }
}

const SHOWN: [&str; 6] =
    ["dot.png", "https://example.org/a.webp?x=1", "key.png", "missing.png", ".", "data:image/svg+xml,<svg/>"];

#[tokio::test]
async fn build_23_a_model_that_takes_pictures_gets_them_behind_the_goal_and_files_pass_the_guard() {
    let shop = gallery(&["look", "read_file"], Pictures::ByModel);
    let dot = format!("data:image/png;base64,{DOT}");
    let images: Vec<&str> = SHOWN.into_iter().chain([dot.as_str()]).collect();
    let (parts, told) = first_message(&shop, &images).await;
    let text = text_of(&parts[0]);
    assert!(
        text.starts_with("goal 0\n\n[legwork: these pictures of the task could not be shown.]"),
        "{text}"
    );
    for (name, why) in [
        ("key.png", "no PNG, JPEG, GIF or WebP"),
        ("missing.png", "No such file"),
        (".", "not a file"),
        ("data:image/svg+xml,<svg/>", "not base64"),
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(&format!("- {name}: ")) && line.contains(why)),
            "{text}"
        );
        assert!(told.iter().any(|word| word.contains(name)), "{told:?}");
    }
    let pictures: Vec<&Image> = parts[1..]
        .iter()
        .map(|part| if let Part::Image(image) = part { image } else { panic!("{part:?}") })
        .collect();
    let sources = [
        ("image/png", ImageSource::DataBase64("iVBORwECAw==".to_owned())),
        ("image/webp", ImageSource::Url("https://example.org/a.webp?x=1".to_owned())),
        ("image/png", ImageSource::DataBase64(DOT.to_owned())),
    ];
    assert_eq!(pictures.len(), 3);
    for (picture, (media_type, source)) in pictures.iter().zip(sources) {
        assert_eq!((picture.media_type.as_str(), &picture.source), (media_type, &source));
    }
    let blind = gallery(&["look"], Pictures::ByModel);
    let (parts, _) = first_message(&blind, &["dot.png"]).await;
    assert!(parts.len() == 1 && text_of(&parts[0]).contains("may not read files"), "{parts:?}");
}

/// Proves BUILD-24, BUILD-25.
#[tokio::test]
async fn build_24_a_model_that_takes_none_is_told_which_pictures_there_are() {
    let shop = gallery(&["look"], Pictures::Never);
    let dot = format!("data:image/png;base64,{DOT}");
    let (parts, told) =
        first_message(&shop, &["dot.png", "https://example.org/a.png", "missing.png", &dot]).await;
    let [part] = parts.as_slice() else { panic!("text alone: {parts:?}") };
    let text = text_of(part);
    let path = shop.folder.path().join("dot.png").display().to_string();
    assert!(text.contains("you are not shown them"), "{text}");
    assert!(text.contains(&format!("\n- {path}\n- https://example.org/a.png\n")), "{text}");
    assert!(text.contains("- missing.png: No such file") && text.contains("takes no pictures"), "{text}");
    assert_eq!(told.len(), 2, "{told:?}");
    let (parts, _) = first_message(&gallery(&[], Pictures::Never), &[]).await;
    assert_eq!(text_of(&parts[0]), "goal 0", "nothing is said where there are no pictures");
}

#[tokio::test]
async fn build_25_pictures_that_are_too_large_are_left_out() {
    let shop = gallery(&["read_file"], Pictures::Always);
    let large = shop.folder.path().join("large.png");
    let file = std::fs::File::create(&large).expect("a file");
    file.set_len(6 * 1024 * 1024).expect("it grows");
    let (parts, told) = first_message(&shop, &["large.png"]).await;
    assert!(parts.len() == 1 && text_of(&parts[0]).contains("at most 5242880"), "{parts:?}");
    assert_eq!(told.len(), 1);
}
