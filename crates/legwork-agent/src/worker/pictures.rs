//! The pictures of a task as its child is shown them: parts of its first message for a model that takes pictures, else lines of
//! text that name them (BUILD-23, BUILD-24). What cannot be shown is named with the reason; it never keeps the child from
//! starting (BUILD-25).
//!
//! A file is shown only to a child that may read files, and only when it is a picture by its first bytes: whatever else a path
//! names goes to no provider.

use super::local::Pictures;
use crate::models::Model;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use legwork_core::batch::Setting;
use legwork_core::message::{Author, Image, ImageSource, Message, Part};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The tool whose right is asked for before a file is read.
const READ_FILE: &str = "read_file";
/// Bytes of one picture, and of all pictures of a task together.
const IMAGE_BYTES_MAX: u64 = 5 * 1024 * 1024;
const IMAGES_BYTES_MAX: u64 = 20 * 1024 * 1024;
/// Bytes of a text that a reason repeats.
const NAMED_BYTES_MAX: usize = 120;

/// Stands before the names of pictures that the model does not take.
const UNSEEN: &str = "[legwork: these pictures belong to the task, and you are not shown them. Look at them with your tools, or say \
                      what you could not see.]";
/// Stands before what could be neither shown nor named.
const MISSING: &str = "[legwork: these pictures of the task could not be shown.]";

/// How a child sees.
#[derive(Debug, Clone)]
pub(super) struct Sight {
    /// Whether its model takes pictures.
    pub(super) takes_images: bool,
    /// Whether it may read files.
    pub(super) reads_files: bool,
    /// The folder that paths start from.
    pub(super) folder: PathBuf,
}

impl Sight {
    /// How a child with this model and these tools sees.
    pub(super) fn of(pictures: Pictures, model: &dyn Model, setting: &Setting) -> Self {
        let takes_images = match pictures {
            Pictures::ByModel => model.takes_images(),
            Pictures::Always => true,
            Pictures::Never => false,
        };
        let reads_files = setting.rights.allow(READ_FILE);
        Sight { takes_images, reads_files, folder: PathBuf::from(&setting.folder) }
    }
}

/// The first message of a child: its goal, with its pictures. The second value says what could not be shown.
pub(super) async fn shown(goal: String, images: Vec<String>, sight: Sight) -> (Message, Vec<String>) {
    if images.is_empty() {
        return (Message::text(Author::User, goal), Vec::new());
    }
    let plain = Message::text(Author::User, goal.clone());
    let looking = tokio::task::spawn_blocking(move || message(goal, &images, &sight));
    looking
        .await
        .unwrap_or_else(|error| (plain, vec![format!("the pictures could not be looked at: {error}")]))
}

/// What becomes of one picture.
enum Seen {
    /// It is shown.
    Part(Image, u64),
    /// It is named.
    Line(String),
}

fn message(goal: String, images: &[String], sight: &Sight) -> (Message, Vec<String>) {
    let (mut parts, mut lines, mut missing, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for image in images {
        match seen(image, sight, IMAGES_BYTES_MAX - bytes) {
            Ok(Seen::Part(image, size)) => {
                bytes += size;
                parts.push(Part::Image(image));
            }
            Ok(Seen::Line(line)) => lines.push(line),
            Err(why) => missing.push(format!("{}: {why}", crate::excerpt::head_of(image, NAMED_BYTES_MAX))),
        }
    }
    let listed = |head: &str, lines: &[String]| match lines {
        [] => String::new(),
        lines => format!("\n\n{head}\n- {}", lines.join("\n- ")),
    };
    let text = format!("{goal}{}{}", listed(UNSEEN, &lines), listed(MISSING, &missing));
    parts.insert(0, Part::Text { text });
    (Message { author: Author::User, parts }, missing)
}

fn seen(image: &str, sight: &Sight, room: u64) -> Result<Seen, String> {
    let scheme = image.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("data") if sight.takes_images => data(image, room),
        Some("data") => {
            Err("this model takes no pictures, and this one is no file that could be named".to_owned())
        }
        Some("http" | "https") if sight.takes_images => {
            let media_type = by_name(image).to_owned();
            Ok(Seen::Part(Image { media_type, source: ImageSource::Url(image.to_owned()) }, 0))
        }
        Some("http" | "https") => Ok(Seen::Line(image.to_owned())),
        Some(_) | None => file(&sight.folder.join(image), sight, room),
    }
}

/// A picture that is written into the task itself.
fn data(image: &str, room: u64) -> Result<Seen, String> {
    let (head, data) = image.split_once(',').ok_or("it has no data")?;
    let media_type = head.get("data:".len()..).and_then(|rest| rest.split(';').next()).unwrap_or_default();
    if !head.to_ascii_lowercase().ends_with(";base64") || STANDARD.decode(data).is_err() {
        return Err("its data is not base64".to_owned());
    }
    let bytes = within(data.len() as u64 / 4 * 3, room)?;
    let source = ImageSource::DataBase64(data.to_owned());
    Ok(Seen::Part(Image { media_type: media_type.to_ascii_lowercase(), source }, bytes))
}

fn file(path: &Path, sight: &Sight, room: u64) -> Result<Seen, String> {
    let facts = path.metadata().map_err(|error| error.to_string())?;
    if !facts.is_file() {
        return Err("it is not a file".to_owned());
    }
    if !sight.takes_images {
        return Ok(Seen::Line(path.display().to_string()));
    }
    if !sight.reads_files {
        return Err(format!("this subagent may not read files: it does not have the tool {READ_FILE}"));
    }
    let size = within(facts.len(), room)?;
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(|error| error.to_string())?;
    opened.take(size).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let media_type = by_content(&bytes).ok_or("it is no PNG, JPEG, GIF or WebP picture")?.to_owned();
    Ok(Seen::Part(Image { media_type, source: ImageSource::DataBase64(STANDARD.encode(&bytes)) }, size))
}

fn within(size: u64, room: u64) -> Result<u64, String> {
    match size {
        size if size > IMAGE_BYTES_MAX => {
            Err(format!("it has {size} bytes, and a picture may have at most {IMAGE_BYTES_MAX}"))
        }
        size if size > room => {
            Err(format!("the pictures of a task may have at most {IMAGES_BYTES_MAX} bytes together"))
        }
        size => Ok(size),
    }
}

/// The kind of a picture by its first bytes.
fn by_content(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The kind of a picture by how its address ends.
fn by_name(address: &str) -> &'static str {
    let path = address.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    match path.rsplit('.').next() {
        Some("png") => "image/png",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some(_) | None => "image/jpeg",
    }
}
