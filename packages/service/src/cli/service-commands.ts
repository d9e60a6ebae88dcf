import type { CommandInfo } from './command-info.ts'
import type { OptionName } from './option-table.ts'

const asking: readonly OptionName[] = ['data', 'json', 'config', 'help']
const paging: readonly OptionName[] = ['limit', 'cursor']
const needsService = 'Asks the service that runs here, or the one that GANTRY_URL and GANTRY_KEY name.'

/** The commands that are the service, or that ask one: rows of the table of commands. */
export const serviceCommands = {
  serve: {
    summary: 'Take calls over HTTP and from brokers, keep them until they have their one outcome, and work on them.',
    notes: [
      'Everything is kept in one folder, or with DATABASE_URL in a PostgreSQL that several processes can share.',
      'With GANTRY_TRANSPORT=redis or kafka, or both, and REDIS_URL or KAFKA_BROKERS, calls come from there too.',
      'Prints where it listens, then `ready`, on stdout; its log is one line of JSON each on stderr.',
      'The first SIGTERM or SIGINT lets running calls end or hands them back; a second one ends it at once.',
    ],
    operands: [],
    options: ['port', 'host', 'data', 'role', 'json', 'config', 'help'],
    examples: [
      { line: 'gantry serve', what: 'listens on 127.0.0.1:7420 and keeps everything in .gantry' },
      { line: 'gantry serve --port 0 --data /var/lib/gantry', what: 'takes any free port and another folder' },
      { line: 'gantry serve --role worker', what: 'only works, for an API in another process (needs DATABASE_URL)' },
    ],
  },
  calls: {
    summary: 'List the calls of the service, newest first.',
    notes: [needsService],
    operands: [],
    options: ['state', 'tool', ...paging, ...asking],
    examples: [
      { line: 'gantry calls', what: 'prints a line for each' },
      { line: 'gantry calls --state running --tool demo:sleep', what: 'prints some of them' },
    ],
  },
  call: {
    summary: 'Show where a call of the service stands.',
    notes: [
      needsService,
      'With --follow its events are printed as they come, over broken connections too, and the exit code is its outcome’s.',
    ],
    operands: [{ name: 'id' }],
    options: ['follow', 'quiet', 'verbose', ...asking],
    examples: [
      { line: 'gantry call $ID', what: 'prints its state and, once it has ended, its output' },
      { line: 'gantry call $ID --follow', what: 'waits for its end' },
    ],
  },
  cancel: {
    summary: 'Cancel a call of the service.',
    notes: [needsService, 'A call that has ended stays as it is.'],
    operands: [{ name: 'id' }],
    options: asking,
    examples: [{ line: 'gantry cancel $ID', what: 'tells it to end' }],
  },
  'dlq ls': {
    summary: 'List the dead letters: calls that could not be done and wait for a person.',
    notes: [needsService],
    operands: [],
    options: [...paging, ...asking],
    examples: [{ line: 'gantry dlq ls', what: 'prints a line for each' }],
  },
  'dlq show': {
    summary: 'Show one dead letter with what was asked for.',
    notes: [needsService],
    operands: [{ name: 'id' }],
    options: asking,
    examples: [{ line: 'gantry dlq show $ID', what: 'prints it' }],
  },
  'dlq redrive': {
    summary: 'Hand the call of a dead letter in again.',
    notes: [needsService, 'It is a new call, as its first caller’s; a second time names the same one.'],
    operands: [{ name: 'id' }],
    options: asking,
    examples: [{ line: 'gantry dlq redrive $ID', what: 'prints the id of the new call' }],
  },
  'dlq discard': {
    summary: 'Lay a dead letter aside for good.',
    notes: [needsService],
    operands: [{ name: 'id' }],
    options: asking,
    examples: [{ line: 'gantry dlq discard $ID', what: 'nobody has to look at it again' }],
  },
  workers: {
    summary: 'List the processes of the service, as they were last heard of.',
    notes: [needsService],
    operands: [],
    options: asking,
    examples: [{ line: 'gantry workers', what: 'prints a line for each' }],
  },
} as const satisfies { readonly [name: string]: CommandInfo }
