use legwork_local::engine::*;
use std::time::Instant;
fn main() {
    let s = Instant::now();
    let dir = std::env::args().nth(1).unwrap();
    let mut last = String::new();
    let path = legwork_local::weights::prepare(None, dir.as_ref(), &mut |p| {
        let n = format!("{p:?}").split_whitespace().next().unwrap().to_owned();
        if n != last { eprintln!("{:?} {n}", s.elapsed()); last = n; }
        std::ops::ControlFlow::Continue(())
    }).unwrap();
    eprintln!("{:?} prepared", s.elapsed());
    let engine = Engine::start(&path).unwrap();
    eprintln!("{:?} loaded", s.elapsed());
    let v = engine.vocabulary();
    let text = std::env::args().nth(2).unwrap();
    let mut prompt = vec![];
    prompt.push(v.turn_start()); prompt.extend(v.encode("system\nYou are a helpful assistant.")); prompt.push(v.turn_end()); prompt.extend(v.encode("\n"));
    prompt.push(v.turn_start()); prompt.extend(v.encode(&format!("user\n{text}"))); prompt.push(v.turn_end()); prompt.extend(v.encode("\n"));
    prompt.push(v.turn_start()); prompt.extend(v.encode("assistant\n"));
    eprintln!("prompt {} tokens", prompt.len());
    let schema = serde_json::json!({"type":"object","properties":{"answer":{"type":"string","maxLength":480}},"required":["answer"],"additionalProperties":false});
    for _ in 0..2 {
    let s = Instant::now();
    let mut first = None;
    let rt = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut r = rt.block_on(engine.ask(Request { prompt: prompt.clone(), schema: schema.clone(), tokens_max: 120 })).unwrap();
    while let Some(e) = r.next_blocking() { match e { Event::Text(t) => { first.get_or_insert(s.elapsed()); print!("{t}") } e => println!("\n{e:?}") } }
    eprintln!("first {first:?}, total {:?}", s.elapsed());
    }
}
