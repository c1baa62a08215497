//! A real adk-rs server: its own router, its own sessions in SQLite. Its model is the one of all these servers
//! (tests/support/foreign/wishes.py), which runs beside it.

use std::{collections::HashMap, env, fs, io::Write, process::Stdio, sync::Arc};

use adk_rs::agents::{BaseAgent, LlmAgent, ParallelAgent};
use adk_rs::auth::{AuthConfig, InMemoryCredentialService};
use adk_rs::core::{DynTool, Event, LlmRequest, LlmResponse, Model, ToolContext};
use adk_rs::error::{Error, Result};
use adk_rs::genai_types::{Content, FunctionDeclaration, Part, Role, Schema};
use adk_rs::mcp::{McpClient, McpStdioParams, McpTool};
use adk_rs::runner::Runner;
use adk_rs::server::{AppState, build_router};
use adk_rs::services::sql::SqlSessionService;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

mod vectors;

fn command(variable: &str) -> Vec<String> {
    serde_json::from_str(&env::var(variable).unwrap()).unwrap()
}

// The model: a line to the process of MODEL, and a line back.

#[derive(Debug)]
struct Wishes(ChildStdin, BufReader<ChildStdout>);

#[derive(Debug)]
struct Obliging(&'static str, Arc<Mutex<Wishes>>);

#[async_trait]
impl Model for Obliging {
    fn name(&self) -> &str {
        "obliging"
    }
    fn supported_models(&self) -> &'static [&'static str] {
        &["obliging"]
    }
    async fn generate_content(&self, asked: LlmRequest) -> Result<LlmResponse> {
        let Wishes(to, from) = &mut *self.1.lock().await;
        let line = json!({"agent": self.0, "contents": asked.contents}).to_string() + "\n";
        let mut said = String::new();
        to.write_all(line.as_bytes()).await.map_err(|error| Error::other(error.to_string()))?;
        from.read_line(&mut said).await.map_err(|error| Error::other(error.to_string()))?;
        let parts: Vec<Part> = serde_json::from_str(&said).unwrap();
        Ok(LlmResponse { content: Some(Content { role: Role::Model, parts }), ..Default::default() })
    }
}

// The tools: what they do stands in TOOL_LOG.

fn note(what: Value) {
    let mut log = fs::OpenOptions::new().create(true).append(true).open(env::var("TOOL_LOG").unwrap()).unwrap();
    log.write_all((what.to_string() + "\n").as_bytes()).unwrap();
}

#[derive(Debug)]
struct Tool(&'static str, &'static str, Option<AuthConfig>);

#[async_trait]
impl DynTool for Tool {
    fn name(&self) -> &str {
        self.0
    }
    fn description(&self) -> &str {
        self.0
    }
    fn auth_config(&self) -> Option<&AuthConfig> {
        self.2.as_ref()
    }
    fn requires_confirmation(&self, args: &Value) -> bool {
        match self.0 {
            "reimburse" => args["amount"].as_f64() > Some(1000.0),
            "launch" => fs::exists(env::var("TOOL_LOG").unwrap() + ".armed").unwrap(),
            name => name != "lookup",
        }
    }
    fn declaration(&self) -> Option<FunctionDeclaration> {
        let kind = if matches!(self.1, "amount" | "days") { Schema::integer() } else { Schema::string() };
        let schema = Schema::object().property(self.1, kind).require(self.1);
        Some(FunctionDeclaration::new(self.0, self.0).with_parameters(schema))
    }
    async fn run(&self, args: Value, at: &mut ToolContext) -> Result<Value> {
        let given = &args[self.1];
        match self.0 {
            "linger" => {
                note(json!({"tool": "linger", "begun": given}));
                let fifo = env::var("TOOL_FIFO").unwrap() + "-" + given.as_str().unwrap();
                tokio::fs::read(fifo).await.map_err(|error| Error::other(error.to_string()))?;
                note(json!({"tool": "linger", "ended": given}));
                return Ok(json!({"word": given}));
            }
            "request_time_off" => {
                let payload = at.tool_confirmation.as_ref().and_then(|one| one.payload.clone()).unwrap_or_default();
                let days = payload["approved_days"].as_i64().or(given.as_i64()).min(given.as_i64());
                note(json!({"tool": self.0, "days": days}));
                return Ok(json!({"approved_days": days}));
            }
            "lookup" => return Ok(json!({"topic": given})),
            _ => note(json!({"tool": self.0, self.1: given})),
        }
        match self.0 {
            "reimburse" => Ok(json!({"paid": given})),
            "deploy" => Ok(json!({"deployed": given})),
            "launch" => Ok(json!({"launched": given})),
            "read_calendar" => Ok(json!({"read": given})),
            _ => Err(Error::other(format!("no {} today", given.as_str().unwrap()))),
        }
    }
}

fn tools() -> Vec<Arc<dyn DynTool>> {
    let sign_in: AuthConfig = serde_json::from_value(json!({
        "auth_scheme": {"scheme_type": "o_auth2", "flows": {"authorization_code": {
            "authorization_url": "https://sign.in/", "token_url": "https://sign.in/token"}}},
        "raw_auth_credential": {"auth_type": "o_auth2", "oauth2": {"client_id": "us", "client_secret": "hush"}},
    }))
    .unwrap();
    let taking = [
        ("reimburse", "amount"), ("deploy", "service"), ("linger", "word"), ("break_down", "word"),
        ("launch", "target"), ("lookup", "topic"), ("request_time_off", "days"),
    ];
    let mut all: Vec<Arc<dyn DynTool>> =
        taking.into_iter().map(|(name, takes)| Arc::new(Tool(name, takes, None)) as Arc<dyn DynTool>).collect();
    all.push(Arc::new(Tool("read_calendar", "day", Some(sign_in))));
    all
}

#[tokio::main]
async fn main() {
    if env::args().len() > 1 {
        return vectors::main();
    }
    let words = command("MODEL");
    let mut beside = Command::new(&words[0]).args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let ends = (beside.stdin.take().unwrap(), beside.stdout.take().unwrap());
    let speaks = Arc::new(Mutex::new(Wishes(ends.0, BufReader::new(ends.1))));
    let agent = |name: &'static str| LlmAgent::builder(name).description(name).model(Arc::new(Obliging(name, speaks.clone())));
    let done = |name: &'static str| Arc::new(agent(name).tools(tools()).build().unwrap()) as Arc<dyn BaseAgent>;

    let words = command("MCP");
    let there = McpStdioParams { command: words[0].clone(), args: words[1..].to_vec(), ..Default::default() };
    let files = Arc::new(McpClient::spawn(there).await.unwrap());
    // What `McpToolset::with_confirmation_policy(All)` makes of them. An agent's builder takes tools only, no toolset.
    let listed = files.list_tools().await.unwrap().into_iter().map(|there| {
        Arc::new(McpTool::new(there, files.clone()).with_require_confirmation(true)) as Arc<dyn DynTool>
    });

    let roots: [(&str, Arc<dyn BaseAgent>); 4] = [
        ("clerk", done("clerk")),
        ("filer", Arc::new(agent("filer").tools(tools()).tools(listed).build().unwrap())),
        ("front", Arc::new(agent("front").sub_agent(done("payer")).build().unwrap())),
        ("fork", Arc::new(ParallelAgent::new("fork", "fork", vec![done("east"), done("west")]).unwrap())),
    ];
    let there = env::var("SESSIONS").unwrap() + "?mode=rwc";
    let sessions = Arc::new(SqlSessionService::connect(&there).await.unwrap());
    let mut runners = HashMap::new();
    for (name, root) in roots {
        let kept = Arc::new(InMemoryCredentialService::new());
        let runner = Runner::builder().app_name(name).agent(root).session_service(sessions.clone()).credential_service(kept);
        runners.insert(name.to_owned(), Arc::new(runner.build().unwrap()));
    }
    let port = env::var("PORT").unwrap_or("0".into());
    let listening = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    println!("{}", listening.local_addr().unwrap().port());
    axum::serve(listening, build_router(AppState::unauthenticated(Arc::new(runners)))).await.unwrap();
}

pub fn user_event(parts: Vec<Part>) -> Event {
    Event::new("user", LlmResponse { content: Some(Content { role: Role::User, parts }), ..Default::default() })
}
