import { usageError } from './errors.ts'

/** How the text after an option is read; `flag` takes none, and a `list` may be repeated. */
type OptionKind = 'flag' | 'text' | 'list' | 'file' | 'json' | 'duration' | 'count' | 'port'

export interface OptionInfo {
  readonly kind: OptionKind
  /** The short form, one character. */
  readonly short?: string
  /** Placeholder of the value in help. */
  readonly value?: string
  /** The allowed values. */
  readonly choices?: readonly string[]
  readonly summary: string
}

/** Every option of every command, one meaning each; parsing, help and completion read it. */
export const options = {
  json: { kind: 'flag', summary: 'Print JSON on stdout and nothing else there.' },
  config: { kind: 'file', value: 'FILE', summary: 'Use this configuration file.' },
  quiet: { kind: 'flag', short: 'q', summary: 'Show no progress.' },
  verbose: { kind: 'flag', short: 'v', summary: 'Show every log line of a tool, not only warnings.' },
  timeout: {
    kind: 'duration',
    value: 'TIME',
    summary: 'Give up after 200ms, 5s or 2m; a bare number is milliseconds.',
  },
  'idempotency-key': { kind: 'text', value: 'KEY', summary: 'Idempotency key of the call.' },
  'on-circuit-open': {
    kind: 'text',
    value: 'WHAT',
    choices: ['fail', 'wait'],
    summary: 'While the circuit of the tool is open: fail at once, or wait for it.',
  },
  backend: { kind: 'text', value: 'KEY', summary: 'Use this backend of the tool, such as http:github.' },
  input: { kind: 'json', value: 'JSON', summary: 'The value of {{input}}: JSON, @file or - for stdin.' },
  eval: { kind: 'text', short: 'e', value: 'CODE', summary: 'The program itself, in place of a file.' },
  language: {
    kind: 'text',
    value: 'NAME',
    choices: ['javascript', 'typescript', 'python', 'workflow'],
    summary:
      'javascript, typescript, python or workflow; else its extension decides, then its content, then typescript.',
  },
  limits: { kind: 'json', value: 'JSON', summary: 'Ceilings such as {"toolCalls":10}: JSON or @file.' },
  explain: {
    kind: 'json',
    value: 'CALL',
    summary: 'Say where this call would run, and why: {"tool": …, "args": …} as JSON, @file or - for stdin.',
  },
  check: { kind: 'flag', summary: 'Check the code against the schemas of its tools before it runs.' },
  resume: { kind: 'file', value: 'FILE', summary: 'Resume an earlier run from its printed ChainResult.' },
  limit: { kind: 'count', value: 'N', summary: 'At most this many.' },
  cursor: { kind: 'text', value: 'CURSOR', summary: 'Continue after an earlier page.' },
  namespace: { kind: 'text', value: 'NAME', summary: 'Only tools of this namespace.' },
  tag: { kind: 'list', value: 'TAG', summary: 'Only tools with this tag.' },
  'all-versions': { kind: 'flag', summary: 'Every version, not only the one that runs by default.' },
  level: {
    kind: 'text',
    value: 'LEVEL',
    choices: ['summary', 'types', 'schema', 'full', 'debug', 'info', 'warn', 'error'],
    summary:
      'describe: how much to print, one of summary, types, schema (default) and full. logs: print lines of this level and above, one of debug (default), info, warn and error.',
  },
  'max-tokens': { kind: 'count', value: 'N', summary: 'Omit parts until the output fits.' },
  seconds: { kind: 'count', value: 'N', summary: 'How long to measure; 5 by default.' },
  concurrency: { kind: 'count', value: 'N', summary: 'Calls at a time; 8 by default.' },
  store: { kind: 'file', value: 'FILE', summary: 'The store of secrets; .gantry/secrets by default.' },
  'key-file': {
    kind: 'file',
    value: 'FILE',
    summary: 'The file with the key of the store, readable by its owner alone.',
  },
  'new-key-file': { kind: 'file', value: 'FILE', summary: 'The file with the new key of the store.' },
  name: {
    kind: 'text',
    value: 'NAME',
    summary: 'A name: of the imported tools, by default made from the title; of the stored file.',
  },
  'base-url': { kind: 'text', value: 'URL', summary: 'Base URL of the API, instead of the servers of the document.' },
  origin: { kind: 'list', value: 'URL', summary: 'Import operations whose own server has this origin.' },
  operation: { kind: 'list', value: 'NAME', summary: 'Only this operation; a * at the end matches any suffix.' },
  out: {
    kind: 'file',
    value: 'FILE',
    summary: 'Where to write: a file, for run the folder of the files that the program wrote, - for stdout.',
  },
  force: { kind: 'flag', summary: 'Replace a file that exists.' },
  'key-stdin': { kind: 'flag', summary: 'Read the key from stdin.' },
  'plain-http': { kind: 'flag', summary: 'Send the key over plain http to another machine.' },
  update: { kind: 'flag', summary: 'Choose packages anew, and replace the lock files.' },
  private: { kind: 'flag', summary: 'Allow the URL to resolve to a private address.' },
  port: {
    kind: 'port',
    value: 'N',
    summary: 'Listen on this port; 7420 by default (runtime serve: 7421), 0 for any that is free.',
  },
  listen: {
    kind: 'text',
    value: 'ADDRESS',
    summary: 'Listen on this address; 127.0.0.1 by default. Any that other machines reach needs runtimeServer.tls.',
  },
  host: {
    kind: 'text',
    value: 'ADDRESS',
    summary: 'Listen on this address; 127.0.0.1, for this machine alone, by default.',
  },
  data: {
    kind: 'file',
    value: 'DIR',
    summary: 'The data folder; .gantry beside the configuration by default.',
  },
  role: {
    kind: 'list',
    value: 'ROLE',
    choices: ['api', 'worker', 'relay'],
    summary: 'Run only this role: api, worker or relay; may be repeated.',
  },
  local: { kind: 'flag', summary: 'Run in this process, even when a service runs.' },
  state: {
    kind: 'text',
    value: 'STATE',
    choices: ['queued', 'delayed', 'asked', 'running', 'ok', 'failed', 'denied', 'timeout', 'cancelled', 'unknown'],
    summary: 'Only calls in this state, such as running or failed.',
  },
  tool: { kind: 'text', value: 'ID', summary: 'Only calls of this tool.' },
  all: { kind: 'flag', summary: 'Decided ones too.' },
  watch: { kind: 'flag', short: 'w', summary: 'Print new ones and decisions as they come, until Ctrl-C.' },
  full: { kind: 'flag', summary: 'Do not truncate long texts.' },
  reason: { kind: 'text', value: 'TEXT', summary: 'Why; the caller sees it, and it is audited.' },
  follow: {
    kind: 'flag',
    short: 'f',
    summary: 'Print its events until it ends, then its outcome; for logs, lines as they come.',
  },
  key: { kind: 'text', value: 'ID', summary: 'As the caller who has this key.' },
  principal: { kind: 'text', value: 'NAME', summary: 'Who calls.' },
  tenant: { kind: 'text', value: 'NAME', summary: 'Of this tenant.' },
  permission: { kind: 'list', value: 'NAME', summary: 'With this permission; may be repeated.' },
  'grant-role': { kind: 'list', value: 'NAME', summary: 'With this role; may be repeated.' },
  tools: {
    kind: 'list',
    value: 'PATTERN',
    summary: 'Only for tools such as files:* or files:read; may be repeated.',
  },
  days: { kind: 'count', value: 'N', summary: 'Days until it expires; 90 by default.' },
  overlap: { kind: 'duration', value: 'TIME', summary: 'How long the old key stays valid; a day by default.' },
  'cancel-calls': { kind: 'flag', summary: 'Also cancel the calls of its principal that no worker has claimed.' },
  signing: { kind: 'flag', summary: 'For a key that signs requests and is never sent.' },
  call: { kind: 'text', value: 'ID', summary: 'Only entries of this call and its inner calls.' },
  status: { kind: 'text', value: 'STATUS', summary: 'Only calls with this outcome, such as ok, failed or denied.' },
  phase: { kind: 'text', value: 'PHASE', summary: 'Only start, intent, end, lost, released, refused or admin.' },
  since: { kind: 'text', value: 'TIME', summary: 'From this time on, such as 2026-01-31T12:00:00Z.' },
  until: { kind: 'text', value: 'TIME', summary: 'Before this time.' },
  file: {
    kind: 'list',
    value: 'FILE',
    summary:
      'A file: for run, one for the program, as in.csv, path=in.csv or path=art_…, may be repeated; for audit verify, an export.',
  },
  code: {
    kind: 'text',
    value: 'CODE',
    summary: 'The program of code:run or shell:run: @file, - for stdin, or itself.',
  },
  head: {
    kind: 'text',
    value: 'HEAD',
    summary: 'The head of an earlier verification, which the chain must still contain.',
  },
  http: { kind: 'flag', summary: 'For a client that connects to the service over HTTP.' },
  'with-key': { kind: 'flag', summary: 'Write the key itself instead of a reference to it.' },
  engine: {
    kind: 'text',
    value: 'NAME',
    summary: 'docker, containerd or qemu; the one that the configuration names, then docker by default.',
  },
  socket: {
    kind: 'file',
    value: 'FILE',
    summary: 'The socket of the engine; that of the configuration, then its usual one by default.',
  },
  'engine-namespace': {
    kind: 'text',
    value: 'NAME',
    summary: 'The namespace in containerd; that of the configuration, then gantry by default.',
  },
  help: { kind: 'flag', short: 'h', summary: 'Explain the command.' },
  version: { kind: 'flag', short: 'V', summary: 'Print the version.' },
} as const satisfies { readonly [name: string]: OptionInfo }

export type OptionName = keyof typeof options

export function isOptionName(name: string): name is OptionName {
  return Object.hasOwn(options, name)
}

interface ValueOf<Choice> {
  readonly flag: true
  readonly text: Choice
  readonly list: readonly Choice[]
  readonly file: string
  readonly json: string
  readonly duration: number
  readonly count: number
  readonly port: number
}

type ChoiceOf<Info> = Info extends { readonly choices: readonly (infer Choice)[] } ? Choice : string

type Options = typeof options

/** The options of one command line, read and checked. */
export type OptionValues = { readonly [Name in OptionName]?: ValueOf<ChoiceOf<Options[Name]>>[Options[Name]['kind']] }

/** Reads the text of an option by its kind; throws INPUT_INVALID that says what is allowed. */
export function optionValue(name: string, { kind, choices }: OptionInfo, text: string): string | number | true {
  switch (kind) {
    case 'flag':
      return true
    case 'duration':
      return duration(name, text)
    case 'count':
      return count(name, text)
    case 'port':
      return port(name, text)
    default:
      if (choices !== undefined) return oneOf(name, text, choices)
      if (text === '') throw usageError(`--${name}`, `--${name} is empty.`)
      return text
  }
}

const units: { readonly [unit: string]: number } = { ms: 1, s: 1_000, m: 60_000 }
/** The maximum of Node's timers. */
const longest = 2_147_483_647

function duration(name: string, text: string): number {
  const [, digits, unit] = /^(\d{1,10}(?:\.\d{1,6})?)(ms|s|m)?$/.exec(text) ?? []
  const ms = Number(digits) * (units[unit ?? 'ms'] ?? 1)
  if (ms > 0 && ms <= longest) return Math.max(1, Math.round(ms))
  throw usageError(
    `--${name}`,
    `--${name} takes a time above 0 such as 200ms, 5s or 2m (a bare number is milliseconds), not ${quoted(text)}.`,
  )
}

function count(name: string, text: string): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (value > 0) return value
  throw usageError(`--${name}`, `--${name} takes a whole number above 0, not ${quoted(text)}.`)
}

function port(name: string, text: string): number {
  const value = /^\d{1,5}$/.test(text) ? Number(text) : 65_536
  if (value < 65_536) return value
  throw usageError(`--${name}`, `--${name} takes a port from 0 to 65535, not ${quoted(text)}.`)
}

function oneOf(name: string, text: string, allowed: readonly string[]): string {
  if (allowed.includes(text)) return text
  throw usageError(`--${name}`, `--${name} takes ${allowed.join(', ')}, not ${quoted(text)}.`)
}

/** The typed text, truncated for a message. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
}
