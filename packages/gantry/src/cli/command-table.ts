import type { CommandInfo } from './command-info.ts'
import { loginCommands } from './login-commands.ts'
import type { OptionName } from './option-table.ts'
import { serviceCommands } from './service-commands.ts'

const always: readonly OptionName[] = ['json', 'config', 'help']
/** Commands that a running service handles when there is one. */
const either: readonly OptionName[] = ['local', 'data', ...always]
const calling: readonly OptionName[] = ['timeout', 'quiet', 'verbose', ...either]
const keeping: readonly OptionName[] = ['store', 'key-file', 'json', 'help']
const keyNote = 'The key is in GANTRY_SECRETS_KEY or in the file that --key-file names: 32 bytes as base64 or hex.'
const argumentNote = 'Arguments are JSON, @file to read a file, or - to read stdin; without them the tool gets {}.'

/** Every command; parsing, help and completion read it. A name of two words is a command and its subcommand. */
export const commands = {
  run: {
    summary: 'Run a tool and print its result.',
    notes: [argumentNote],
    operands: [
      { name: 'tool', completes: 'tools' },
      { name: 'json', optional: true, completes: 'files' },
    ],
    options: ['file', 'code', 'out', 'force', 'backend', 'idempotency-key', 'on-circuit-open', ...calling],
    examples: [
      { line: `gantry run demo:add '{"a":5,"b":3}'`, what: 'prints the output' },
      { line: `gantry run demo:add '{"a":5,"b":3}' --json`, what: 'prints one Result as JSON' },
      { line: `gantry run demo:sleep '{"ms":1000}' --timeout 200ms`, what: 'ends with exit code 4' },
      { line: 'gantry run demo:echo @value.json', what: 'takes the arguments from a file' },
      { line: `gantry run code:run '{"language":"python","code":"print(6*7)"}'`, what: 'runs code in a sandbox' },
      {
        line: 'gantry run code:run --code @plot.py --file in.csv --out out',
        what: 'runs a file over a file, keeps what it wrote',
      },
    ],
  },
  stream: {
    summary: 'Run a tool and print its events as they happen.',
    notes: [argumentNote, 'With --json each line is one event: progress, chunk or log, then one done or error.'],
    operands: [
      { name: 'tool', completes: 'tools' },
      { name: 'json', optional: true, completes: 'files' },
    ],
    options: ['backend', 'idempotency-key', 'on-circuit-open', ...calling],
    examples: [
      { line: `gantry stream demo:countdown '{"from":3}'`, what: 'prints chunks, then the output' },
      { line: `gantry stream demo:countdown '{"from":3}' --json`, what: 'prints one event per line' },
    ],
  },
  code: {
    summary: 'Run a program over tools: loops, branches and parallel calls in plain code.',
    notes: [
      'The program is a file, - for stdin, or -e CODE. `await tools.namespace.name(args)` calls a tool, `return` gives the output.',
      'Its output goes to stderr as it is printed. In a service it resumes from its journal when its worker is lost.',
    ],
    operands: [{ name: 'file', optional: true, completes: 'files' }],
    options: ['eval', 'language', 'limits', 'check', 'idempotency-key', ...calling],
    examples: [
      { line: `gantry code -e 'return 6 * 7'`, what: 'prints what it returns' },
      { line: 'gantry code report.ts --json', what: 'prints one Result, with all calls that it made' },
      { line: `gantry code report.py --limits '{"toolCalls":10}'`, what: 'runs Python, ten calls at most' },
    ],
  },
  chain: {
    summary: 'Run steps in sequence; each can use the outputs of earlier steps.',
    notes: ['The chain is a file, - for stdin, or JSON: a list of steps, or {"steps": […], "input": …}.'],
    operands: [{ name: 'file', completes: 'files' }],
    options: ['input', 'resume', 'on-circuit-open', ...calling],
    examples: [
      { line: 'gantry chain steps.json', what: 'runs the steps of a file' },
      {
        line: `gantry chain '[{"tool":"demo:add","args":{"a":"{{input.a}}","b":1}}]' --input '{"a":2}'`,
        what: 'gives the chain an input',
      },
      { line: 'gantry chain steps.json --json > out.json', what: 'keeps the ChainResult' },
      { line: 'gantry chain steps.json --resume out.json', what: 'runs only what did not finish' },
    ],
  },
  tools: {
    summary: 'List the tools.',
    operands: [],
    options: ['namespace', 'tag', 'all-versions', 'limit', 'cursor', ...either],
    examples: [
      { line: 'gantry tools', what: 'lists them by id' },
      { line: 'gantry tools --namespace demo --json', what: 'prints one page as JSON' },
    ],
  },
  'tools folder': {
    summary: 'Report which files of the tools folder were loaded, which were refused, and why.',
    operands: [],
    options: always,
    examples: [{ line: 'gantry tools folder --json', what: 'prints {"path", "loaded", "refused", …}' }],
  },
  'tools diff': {
    summary: 'Show what changed in the definitions of quarantined tools.',
    operands: [{ name: 'tool', optional: true, completes: 'tools' }],
    options: always,
    examples: [
      { line: 'gantry tools diff', what: 'shows every tool in quarantine' },
      { line: 'gantry tools diff files:read', what: 'shows one' },
    ],
  },
  'tools approve': {
    summary: 'Approve quarantined tools as they were last shown.',
    operands: [{ name: 'tool', many: true, completes: 'tools' }],
    options: always,
    examples: [
      { line: 'gantry tools approve files:read', what: 'trusts what tools diff showed' },
      { line: 'gantry tools approve files:read@0123456789abcdef', what: 'trusts the definition of this hash' },
    ],
  },
  backends: {
    summary: 'List the backends and their health.',
    operands: [],
    options: always,
    examples: [{ line: 'gantry backends', what: 'asks each of them' }],
  },
  doctor: {
    summary: 'Report which sandbox runtimes work here, which limits they enforce, and the remedy where one does not.',
    notes: [
      'Every runtime is started and attacked; one that fails an attack is refused.',
      'With --explain the program of the call is not run; it ends with exit code 5 when no runtime would run it.',
    ],
    operands: [],
    options: ['explain', ...always],
    examples: [
      { line: 'gantry doctor', what: 'prints a line or more for each runtime' },
      { line: 'gantry doctor --json', what: 'prints {"runtimes": […]}' },
      {
        line: `gantry doctor --explain '{"tool":"code:run","args":{"language":"python","code":"print(1)"}}'`,
        what: 'says which runtime would run it, and why no other',
      },
    ],
  },
  'runtime build': {
    summary:
      'Build the image of sandboxes from Debian packages, and load it into Docker or containerd, or keep it for virtual machines; or build the packages that the configuration lists.',
    notes: [
      'packages: what runtimes.python.packages and runtimes.node.packages list, by pip and npm, with locked hashes, for the runtime process.',
      'Without a name it builds packages where they are configured and no engine is, and the image standard otherwise.',
      'For an image no registry is contacted. The same packages give the same image, which is not loaded twice. Needs apt-get.',
      'python: Python, bash. node: JavaScript, TypeScript, bash. standard (default): both. full: C, C++ and Perl too.',
    ],
    operands: [{ name: 'flavour', optional: true, completes: ['packages', 'python', 'node', 'standard', 'full'] }],
    options: ['engine', 'socket', 'engine-namespace', 'update', 'quiet', ...always],
    examples: [
      { line: 'gantry runtime build packages', what: 'builds the packages of the configuration, as locked' },
      { line: 'gantry runtime build packages --update', what: 'chooses them anew and writes the lock files' },
      { line: 'gantry runtime build', what: 'builds gantry/sandbox:standard' },
      { line: 'gantry runtime build --engine containerd', what: 'loads it into containerd' },
      { line: 'gantry runtime build --engine qemu', what: 'makes a kernel and a disk for virtual machines' },
      { line: 'gantry runtime build python --json', what: 'prints {"flavour", "name", "digest", "engine"}' },
    ],
  },
  'runtime template': {
    summary: 'Write the archive that Proxmox VE makes a template of sandboxes from.',
    notes: [
      'The key of runtimes.proxmox.agentKey is in it, so that only you may read the file. Needs apt-get and tar.',
      'node: JavaScript, TypeScript, bash. standard (default): Python too. full: C, C++ and Perl too.',
    ],
    operands: [
      { name: 'file', completes: 'files' },
      { name: 'flavour', optional: true, completes: ['node', 'standard', 'full'] },
    ],
    options: ['quiet', ...always],
    examples: [{ line: 'gantry runtime template gantry-sandbox.tar.gz', what: 'writes the archive for pct create' }],
  },
  'runtime images': {
    summary: 'List the images of sandboxes in an engine.',
    operands: [],
    options: ['engine', 'socket', 'engine-namespace', ...always],
    examples: [{ line: 'gantry runtime images --json', what: 'prints {"items": […]}' }],
  },
  'runtime prune': {
    summary: 'Remove images of sandboxes that newer ones replaced, and containers whose owner has died.',
    notes: [
      'An image that has a name of your own, or that a container uses, stays.',
      'packages: removes packages that no lock file of the configuration names and that no process uses.',
      'Without a name it removes packages where they are configured and no engine is, and images otherwise.',
    ],
    operands: [{ name: 'what', optional: true, completes: ['packages'] }],
    options: ['engine', 'socket', 'engine-namespace', ...always],
    examples: [{ line: 'gantry runtime prune', what: 'prints what was removed' }],
  },
  'runtime serve': {
    summary: 'Offer the sandbox runtimes of this host to other Gantrys, which name it under runtimes.remote.',
    notes: [
      'Every request is signed. Without runtimeServer.keys in the configuration a key is made in .gantry/runtime-key.',
      'SIGTERM refuses new sandboxes and ends when running programs have; a second one ends them.',
      'Refused requests go to stderr and to .gantry/runtime-audit.jsonl.',
    ],
    operands: [],
    options: ['port', 'listen', 'data', ...always],
    examples: [
      { line: 'gantry runtime serve', what: 'listens on 127.0.0.1:7421' },
      { line: 'gantry runtime serve --listen 0.0.0.0 --config host.json', what: 'with the TLS of host.json' },
    ],
  },
  'worker temporal': {
    summary:
      'Poll a Temporal server: offer the sandbox runtimes of this host, and run chains and programs that are handed over.',
    notes: [
      'With runtimes.temporal in the configuration it offers sandboxes, with engines.temporal it runs calls as configured here.',
      'SIGTERM takes nothing new and ends when running calls have, or after ten seconds; Temporal gives the rest to another worker.',
      'The calls are on the record in .gantry/worker-audit.jsonl. Needs @temporalio/worker beside gantry.',
    ],
    operands: [],
    options: ['data', ...always],
    examples: [{ line: 'gantry worker temporal --config worker.json', what: 'polls the server of worker.json' }],
  },
  bench: {
    summary: 'Call a tool repeatedly for some seconds, and print throughput and latency.',
    notes: [
      'Calls demo:add with {"a":5,"b":3} unless a tool is named. Calls have their effects: name a tool that only reads.',
      'Exits with 1 when a call failed.',
    ],
    operands: [
      { name: 'tool', optional: true, completes: 'tools' },
      { name: 'json', optional: true },
    ],
    options: ['seconds', 'concurrency', ...calling],
    examples: [
      { line: 'gantry bench', what: 'calls demo:add for five seconds, eight calls at a time' },
      {
        line: `gantry bench demo:echo '{"value":1}' --seconds 2 --concurrency 1 --json`,
        what: 'prints the figures as JSON',
      },
    ],
  },
  init: {
    summary: 'Write a commented configuration, a tool and a test of it into a folder.',
    notes: ['Writes nothing when one of the files exists, unless --force is given.'],
    operands: [{ name: 'folder', optional: true, completes: 'files' }],
    options: ['force', 'json', 'help'],
    examples: [{ line: 'gantry init my-tools', what: 'writes gantry.config.mjs, tools.mjs and tools.test.mjs' }],
  },
  search: {
    summary: 'Find tools by words, best first.',
    operands: [{ name: 'words', many: true }],
    options: ['namespace', 'tag', 'limit', 'cursor', ...either],
    examples: [{ line: 'gantry search add numbers --limit 5', what: 'prints the five best' }],
  },
  describe: {
    summary: 'Explain a tool: what it does, its schemas, examples.',
    operands: [{ name: 'tool', completes: 'tools' }],
    options: ['level', 'max-tokens', ...either],
    examples: [
      { line: 'gantry describe demo:add', what: 'prints what a caller needs' },
      { line: 'gantry describe demo:add --level full --json', what: 'prints all there is' },
    ],
  },
  ...serviceCommands,
  ...loginCommands,
  'secrets init': {
    summary: 'Create an encrypted store of secrets and its key file.',
    operands: [],
    options: keeping,
    examples: [{ line: 'gantry secrets init --key-file ~/.gantry-key', what: 'makes .gantry/secrets and the key' }],
  },
  'secrets set': {
    summary: 'Put a secret into the store, or replace it.',
    notes: ['The value is read from stdin, or typed without echo on a terminal.', keyNote],
    operands: [{ name: 'name' }],
    options: keeping,
    examples: [
      { line: 'gantry secrets set API_TOKEN --key-file ~/.gantry-key', what: 'asks for the value' },
      { line: 'pass show api | gantry secrets set API_TOKEN', what: 'takes it from another program' },
    ],
    discreet: true,
  },
  'secrets list': {
    summary: 'Print the names of the secrets in the store.',
    notes: [keyNote],
    operands: [],
    options: keeping,
    examples: [{ line: 'gantry secrets list', what: 'prints a name per line' }],
  },
  'secrets remove': {
    summary: 'Remove a secret from the store.',
    notes: [keyNote],
    operands: [{ name: 'name' }],
    options: keeping,
    examples: [{ line: 'gantry secrets remove API_TOKEN', what: 'removes it for good' }],
  },
  'secrets rekey': {
    summary: 'Encrypt the store again with a new key.',
    notes: [keyNote, 'The new key file is created if it does not exist.'],
    operands: [],
    options: ['new-key-file', ...keeping],
    examples: [{ line: 'gantry secrets rekey --key-file old.key --new-key-file new.key', what: 'changes the key' }],
  },
  'import openapi': {
    summary: 'Import tools from an OpenAPI 3.0 or 3.1 document.',
    notes: [
      'Writes the tools and their backend to a file for the configuration, and reports what was left out and why.',
      'A URL is fetched only from the host it names. --tag and --operation may be repeated.',
    ],
    operands: [{ name: 'source', completes: 'files' }],
    options: ['name', 'base-url', 'origin', 'tag', 'operation', 'out', 'force', 'private', 'json', 'help'],
    examples: [
      { line: 'gantry import openapi petstore.yaml --name pets', what: 'writes pets.tools.json' },
      { line: 'gantry import openapi https://api.example.com/openapi.json --tag issues', what: 'takes one tag only' },
    ],
  },
  'config check': {
    summary: 'List everything that is wrong with the configuration, each with its path and remedy.',
    notes: [
      'A problem stops the start: an unknown key, a wrong value, a missing file. The exit code is then 2.',
      'A warning does not: a secret without a value, a rule that names no tool, a program that is not there.',
      'Nothing is started or connected.',
    ],
    operands: [],
    options: always,
    examples: [
      { line: 'gantry config check', what: 'checks the file that would be used' },
      { line: 'gantry config check --config gantry.config.yaml', what: 'checks this one' },
    ],
  },
  docs: {
    summary: 'Find a page of the documentation by words, or show the page that is named.',
    notes: ['Without words it lists all pages. The pages ship with the command: nothing is fetched.'],
    operands: [{ name: 'words', optional: true, many: true }],
    options: ['limit', 'json', 'help'],
    examples: [
      { line: 'gantry docs dead letter', what: 'prints the best sections and their pages' },
      { line: 'gantry docs policy', what: 'shows this page' },
      { line: 'gantry docs runtimes/docker --json', what: 'prints {"page", "title", "markdown", …}' },
    ],
  },
  completion: {
    summary: 'Print a completion script for a shell.',
    operands: [{ name: 'shell', completes: ['bash', 'zsh', 'fish'] }],
    options: ['help'],
    examples: [
      { line: 'source <(gantry completion bash)', what: 'for this bash' },
      { line: 'gantry completion zsh > ~/.zfunc/_gantry', what: 'for every new zsh' },
      { line: 'gantry completion fish > ~/.config/fish/completions/gantry.fish', what: 'for every new fish' },
    ],
  },
  help: {
    summary: 'Explain a command.',
    operands: [{ name: 'command', optional: true, many: true, completes: 'commands' }],
    options: ['help'],
    examples: [{ line: 'gantry help run', what: 'the same as gantry run --help' }],
  },
  __complete: {
    summary: 'Print the ids of tools, one per line, for completion scripts.',
    operands: [],
    options: ['config', 'help'],
    examples: [],
    hidden: true,
  },
} as const satisfies { readonly [name: string]: CommandInfo }

export type CommandName = keyof typeof commands

export function isCommandName(name: string): name is CommandName {
  return Object.hasOwn(commands, name)
}

/** The table as rows, without the hidden commands. */
export function listedCommands(): readonly (readonly [CommandName, CommandInfo])[] {
  const rows = Object.entries(commands) as [CommandName, CommandInfo][]
  return rows.filter(([, { hidden }]) => hidden !== true)
}

/** The commands of two words that begin with this one. */
export function commandGroup(first: string): readonly (readonly [CommandName, CommandInfo])[] {
  return listedCommands().filter(([name]) => name.startsWith(`${first} `))
}
