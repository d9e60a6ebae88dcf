import type { CommandInfo } from './command-info.ts'
import type { OptionName } from './option-table.ts'
import { serviceCommands } from './service-commands.ts'

const always: readonly OptionName[] = ['json', 'config', 'help']
/** Commands that a running service answers when there is one. */
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
    options: ['backend', 'idempotency-key', 'on-circuit-open', ...calling],
    examples: [
      { line: `gantry run demo:add '{"a":5,"b":3}'`, what: 'prints the output' },
      { line: `gantry run demo:add '{"a":5,"b":3}' --json`, what: 'prints one Result as JSON' },
      { line: `gantry run demo:sleep '{"ms":1000}' --timeout 200ms`, what: 'ends with exit code 4' },
      { line: 'gantry run demo:echo @value.json', what: 'takes the arguments from a file' },
      { line: `gantry run code:run '{"language":"python","code":"print(6*7)"}'`, what: 'runs code in a sandbox' },
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
      'What it prints goes to stderr as it comes. In a service it resumes from its journal when its worker is lost.',
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
    summary: 'Run steps one after another, each able to use what came before.',
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
    summary: 'Show what changed about tools that were approved and may not be called any more.',
    operands: [{ name: 'tool', optional: true, completes: 'tools' }],
    options: always,
    examples: [
      { line: 'gantry tools diff', what: 'shows every tool in quarantine' },
      { line: 'gantry tools diff files:read', what: 'shows one' },
    ],
  },
  'tools approve': {
    summary: 'Trust changed tools as they were shown last.',
    operands: [{ name: 'tool', many: true, completes: 'tools' }],
    options: always,
    examples: [
      { line: 'gantry tools approve files:read', what: 'trusts what tools diff showed' },
      { line: 'gantry tools approve files:read@0123456789abcdef', what: 'trusts the definition of this hash' },
    ],
  },
  backends: {
    summary: 'List the backends and whether they answer.',
    operands: [],
    options: always,
    examples: [{ line: 'gantry backends', what: 'asks each of them' }],
  },
  doctor: {
    summary: 'Report which sandbox runtimes work here, which limits they enforce, and the remedy where one does not.',
    notes: ['Every runtime is started and attacked; one that fails an attack is refused.'],
    operands: [],
    options: always,
    examples: [
      { line: 'gantry doctor', what: 'prints a line or more for each runtime' },
      { line: 'gantry doctor --json', what: 'prints {"runtimes": […]}' },
    ],
  },
  bench: {
    summary: 'Call a tool again and again for some seconds, and print how fast that is.',
    notes: [
      'Calls demo:add with {"a":5,"b":3} unless a tool is named. Calls have their effects: name a tool that only reads.',
      'Ends with 1 when a call failed.',
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
  'secrets init': {
    summary: 'Make an encrypted store of secrets and the file with its key.',
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
    summary: 'Encrypt the store anew under another key.',
    notes: [keyNote, 'The new key file is made when there is none.'],
    operands: [],
    options: ['new-key-file', ...keeping],
    examples: [{ line: 'gantry secrets rekey --key-file old.key --new-key-file new.key', what: 'changes the key' }],
  },
  'import openapi': {
    summary: 'Make tools from an OpenAPI 3.0 or 3.1 document.',
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
    summary: 'Load the configuration and list its errors.',
    operands: [],
    options: always,
    examples: [
      { line: 'gantry config check', what: 'checks the file that would be used' },
      { line: 'gantry config check --config gantry.config.yaml', what: 'checks this one' },
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

/** The table as rows, without the hidden commands. */
export function listedCommands(): readonly (readonly [CommandName, CommandInfo])[] {
  const rows = Object.entries(commands) as [CommandName, CommandInfo][]
  return rows.filter(([, { hidden }]) => hidden !== true)
}

/** The commands of two words that begin with this one. */
export function commandGroup(first: string): readonly (readonly [CommandName, CommandInfo])[] {
  return listedCommands().filter(([name]) => name.startsWith(`${first} `))
}
