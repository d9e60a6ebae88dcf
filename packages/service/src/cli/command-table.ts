import type { OptionName } from './option-table.ts'

export interface Operand {
  readonly name: string
  readonly optional?: boolean
  /** Takes all that follow. */
  readonly many?: boolean
  /** What a shell offers in its place. */
  readonly completes?: 'tools' | 'files' | 'commands' | readonly string[]
}

export interface Example {
  readonly line: string
  readonly what: string
}

export interface CommandInfo {
  readonly summary: string
  /** More than the summary, for the command's own help. */
  readonly notes?: readonly string[]
  readonly operands: readonly Operand[]
  readonly options: readonly OptionName[]
  readonly examples: readonly Example[]
  /** Not listed; for scripts. */
  readonly hidden?: boolean
}

const always: readonly OptionName[] = ['json', 'config', 'help']
const calling: readonly OptionName[] = ['timeout', 'quiet', 'verbose']
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
    options: ['idempotency-key', ...calling, ...always],
    examples: [
      { line: `gantry run demo:add '{"a":5,"b":3}'`, what: 'prints the output' },
      { line: `gantry run demo:add '{"a":5,"b":3}' --json`, what: 'prints one Result as JSON' },
      { line: `gantry run demo:sleep '{"ms":1000}' --timeout 200ms`, what: 'ends with exit code 4' },
      { line: 'gantry run demo:echo @value.json', what: 'takes the arguments from a file' },
    ],
  },
  stream: {
    summary: 'Run a tool and print its events as they happen.',
    notes: [argumentNote, 'With --json each line is one event: progress, chunk or log, then one done or error.'],
    operands: [
      { name: 'tool', completes: 'tools' },
      { name: 'json', optional: true, completes: 'files' },
    ],
    options: ['idempotency-key', ...calling, ...always],
    examples: [
      { line: `gantry stream demo:countdown '{"from":3}'`, what: 'prints chunks, then the output' },
      { line: `gantry stream demo:countdown '{"from":3}' --json`, what: 'prints one event per line' },
    ],
  },
  chain: {
    summary: 'Run steps one after another, each able to use what came before.',
    notes: ['The chain is a file, - for stdin, or JSON: a list of steps, or {"steps": […], "input": …}.'],
    operands: [{ name: 'file', completes: 'files' }],
    options: ['input', 'resume', ...calling, ...always],
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
    options: ['namespace', 'tag', 'all-versions', 'limit', 'cursor', ...always],
    examples: [
      { line: 'gantry tools', what: 'lists them by id' },
      { line: 'gantry tools --namespace demo --json', what: 'prints one page as JSON' },
    ],
  },
  search: {
    summary: 'Find tools by words, best first.',
    operands: [{ name: 'words', many: true }],
    options: ['namespace', 'tag', 'limit', 'cursor', ...always],
    examples: [{ line: 'gantry search add numbers --limit 5', what: 'prints the five best' }],
  },
  describe: {
    summary: 'Explain a tool: what it does, its schemas, examples.',
    operands: [{ name: 'tool', completes: 'tools' }],
    options: ['level', 'max-tokens', ...always],
    examples: [
      { line: 'gantry describe demo:add', what: 'prints what a caller needs' },
      { line: 'gantry describe demo:add --level full --json', what: 'prints all there is' },
    ],
  },
  'config check': {
    summary: 'Load the configuration and list what is wrong with it.',
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
