import { clientNames } from '@gantry/mcp/internal/server/client-configs'
import type { CommandInfo } from './command-info.ts'
import type { OptionName } from './option-table.ts'

const asking: readonly OptionName[] = ['data', 'json', 'config', 'help']
const paging: readonly OptionName[] = ['limit', 'cursor']
const decides =
  'Needs gantry:approve or a role that the rule names, and a caller other than yourself. It is decided once.'
const choosingRows: readonly OptionName[] = [
  ...(['tenant', 'principal', 'tool', 'call', 'status', 'phase', 'since', 'until'] as const),
]
const needsService = 'Asks the service that runs here, or the one that gantry login or GANTRY_URL and GANTRY_KEY name.'

/** The commands that are the service, or that ask one: rows of the table of commands. */
export const serviceCommands = {
  serve: {
    summary:
      'Run the service: accept calls over HTTP and from brokers, store them, and execute each to its one outcome.',
    notes: [
      'Everything is stored in one folder, or with DATABASE_URL in a PostgreSQL that several processes can share.',
      'With GANTRY_TRANSPORT=redis or kafka, or both, and REDIS_URL or KAFKA_BROKERS, it consumes calls from there too.',
      'Prints where it listens, then `ready`, on stdout; its log is one line of JSON each on stderr.',
      'The first SIGTERM or SIGINT drains: running calls complete or their leases are released; a second one ends it at once.',
    ],
    operands: [],
    options: ['port', 'host', 'data', 'role', 'json', 'config', 'help'],
    examples: [
      { line: 'gantry serve', what: 'listens on 127.0.0.1:7420 and keeps everything in .gantry' },
      { line: 'gantry serve --port 0 --data /var/lib/gantry', what: 'takes any free port and another folder' },
      {
        line: 'gantry serve --role worker',
        what: 'only executes calls, for an API in another process (needs DATABASE_URL)',
      },
    ],
  },
  mcp: {
    summary: 'Serve the tools to an MCP client over stdio.',
    notes: [
      'Forwards to the service that runs here, where calls are stored, or runs them in this process when there is none.',
      'The key `mcp` of the configuration says which tools are visible, and how; see docs/mcp-server.md.',
      'Ends when the client closes its input, or with SIGTERM.',
    ],
    operands: [],
    options: ['local', 'verbose', 'data', 'config', 'help'],
    examples: [
      { line: 'gantry mcp', what: 'is what a client starts; gantry mcp install prints how' },
      { line: 'gantry mcp --local', what: 'runs calls in this process, even when a service runs' },
    ],
  },
  'mcp install': {
    summary: 'Print the configuration that makes an MCP client use these tools.',
    notes: [
      'Nothing is changed: put what it prints into the file that it names.',
      'With --http for the endpoint of the service that runs here; the key stays out of it unless --with-key is given.',
    ],
    operands: [{ name: 'client', optional: true, completes: clientNames }],
    options: ['http', 'with-key', ...asking],
    examples: [
      { line: 'gantry mcp install claude-desktop', what: 'for a client that starts gantry mcp' },
      { line: 'gantry mcp install vscode --http', what: 'for one that connects to the service' },
      { line: 'gantry mcp install', what: 'for all clients that it knows' },
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
    summary:
      'Show a call of the service: its state, arguments without secrets, error, log lines, and where to look next.',
    notes: [
      needsService,
      'Arguments are shown to the principal of the call and with gantry:operate, the place where a tool threw with gantry:audit.',
      'With --follow its events are printed as they come, over broken connections too, and the exit code is that of its outcome.',
    ],
    operands: [{ name: 'id' }],
    options: ['follow', 'quiet', 'verbose', ...asking],
    examples: [
      { line: 'gantry call $ID', what: 'prints its state and, once it has ended, its output' },
      { line: 'gantry call $ID --follow', what: 'waits for its end' },
    ],
  },
  logs: {
    summary: 'Show the log of the service that runs here, or what was recorded about one call.',
    notes: [
      'Without a call: the newest lines of service.log in the data folder, which the service writes.',
      'With a call: its audit entries (with gantry:audit), the log lines of its tool, and the lines about it in service.log.',
    ],
    operands: [{ name: 'call', optional: true }],
    options: ['follow', 'level', 'limit', ...asking],
    examples: [
      { line: 'gantry logs --follow', what: 'prints lines as they are written' },
      { line: 'gantry logs --level warn --limit 20', what: 'prints the last warnings and errors' },
      { line: 'gantry logs $ID', what: 'prints what happened to a call' },
    ],
  },
  'calls replay': {
    summary: 'Replay a call that has ended, with the recorded outcomes in place of its tools, and show what differs.',
    notes: [
      needsService,
      'No tool, backend or sandbox is reached, no secret fetched and no approval requested; see docs/replay.md. Needs gantry:operate.',
      'Exit code 1 when the outcome would differ.',
    ],
    operands: [{ name: 'id' }],
    options: asking,
    examples: [{ line: 'gantry calls replay $ID', what: 'prints what would be different today' }],
  },
  'files put': {
    summary: 'Store a file, and print its id; a call takes it by that id.',
    notes: [needsService, 'Files of more than service.bodyBytes (1 MB) are refused.'],
    operands: [{ name: 'file', completes: 'files' }],
    options: ['name', ...asking],
    examples: [{ line: 'gantry files put prices.csv', what: 'prints the id, such as art_…' }],
  },
  'files ls': {
    summary: 'List stored files, newest first.',
    notes: [needsService],
    operands: [],
    options: [...paging, ...asking],
    examples: [{ line: 'gantry files ls', what: 'prints a line for each' }],
  },
  'files get': {
    summary: 'Write a stored file to this machine.',
    notes: [needsService, 'An existing file is replaced only with --force.'],
    operands: [{ name: 'id' }],
    options: ['out', 'force', ...asking],
    examples: [
      { line: 'gantry files get $ID', what: 'writes it under its name' },
      { line: 'gantry files get $ID --out -', what: 'writes it to stdout' },
    ],
  },
  'files rm': {
    summary: 'Remove stored files of your own.',
    notes: [needsService],
    operands: [{ name: 'id', many: true }],
    options: asking,
    examples: [{ line: 'gantry files rm $ID', what: 'removes it' }],
  },
  cancel: {
    summary: 'Cancel a call of the service.',
    notes: [needsService, 'A call that has ended stays as it is.'],
    operands: [{ name: 'id' }],
    options: asking,
    examples: [{ line: 'gantry cancel $ID', what: 'requests its cancellation' }],
  },
  'approvals ls': {
    summary: 'List the calls that wait for approval: those that you may decide on, and your own.',
    notes: [
      needsService,
      'With --watch the list is read every 2 seconds: open ones first, then each new one and each decision, a line each.',
    ],
    operands: [],
    options: ['all', 'watch', ...paging, ...asking],
    examples: [
      { line: 'gantry approvals ls', what: 'prints a line for each' },
      { line: 'gantry approvals ls --all', what: 'prints those too that were decided' },
      {
        line: 'gantry approvals ls --watch --json',
        what: 'prints approvals and decisions as they come, for a program',
      },
    ],
  },
  'approvals show': {
    summary: 'Show one call that waits for approval, with its arguments.',
    notes: [needsService],
    operands: [{ name: 'id' }],
    options: ['full', ...asking],
    examples: [
      { line: 'gantry approvals show $ID', what: 'prints the request' },
      { line: 'gantry approvals show $ID --full', what: 'prints long arguments whole' },
    ],
  },
  'approvals approve': {
    summary: 'Approve a call that waits for approval.',
    notes: [needsService, decides],
    operands: [{ name: 'id' }],
    options: ['reason', ...asking],
    examples: [{ line: 'gantry approvals approve $ID', what: 'the call runs at once' }],
  },
  'approvals deny': {
    summary: 'Deny a call that waits for approval.',
    notes: [needsService, decides],
    operands: [{ name: 'id' }],
    options: ['reason', ...asking],
    examples: [{ line: `gantry approvals deny $ID --reason 'too dear'`, what: 'the call ends as denied' }],
  },
  'dlq ls': {
    summary: 'List the dead letters: calls that failed for good and wait for an operator.',
    notes: [needsService],
    operands: [],
    options: [...paging, ...asking],
    examples: [{ line: 'gantry dlq ls', what: 'prints a line for each' }],
  },
  'dlq show': {
    summary: 'Show one dead letter with its payload.',
    notes: [needsService, 'The payload needs gantry:operate, and is shown without secrets.'],
    operands: [{ name: 'id' }],
    options: asking,
    examples: [{ line: 'gantry dlq show $ID', what: 'prints it' }],
  },
  'dlq redrive': {
    summary: 'Submit the call of a dead letter again.',
    notes: [needsService, 'It is a new call of its first caller; a second redrive returns the same one.'],
    operands: [{ name: 'id' }],
    options: asking,
    examples: [{ line: 'gantry dlq redrive $ID', what: 'prints the id of the new call' }],
  },
  'dlq discard': {
    summary: 'Discard a dead letter.',
    notes: [needsService],
    operands: [{ name: 'id' }],
    options: asking,
    examples: [{ line: 'gantry dlq discard $ID', what: 'takes it off the list of those that wait' }],
  },
  'keys create': {
    summary: 'Create a key for a caller of the service; it has no permission that its creator lacks.',
    notes: [
      needsService,
      'Its text is printed this once, alone on stdout; the service stores only a hash of it.',
      'With --signing the key pair is made here and the private key is never sent; the client signs each request with it.',
      'Needs gantry:keys, and gantry:tenants for a tenant other than your own.',
    ],
    operands: [{ name: 'name' }],
    options: ['principal', 'tenant', 'permission', 'grant-role', 'tools', 'days', 'signing', ...asking],
    examples: [
      {
        line: 'gantry keys create ci --permission files:read --days 30 > ci.key',
        what: 'may do one thing for a month',
      },
      { line: `gantry keys create bot --tools 'demo:*' --signing`, what: 'signs requests, for some tools' },
    ],
  },
  'keys ls': {
    summary: 'List keys, newest first, without their secrets.',
    notes: [needsService, 'Needs gantry:keys.'],
    operands: [],
    options: ['tenant', ...paging, ...asking],
    examples: [{ line: 'gantry keys ls', what: 'prints a line for each' }],
  },
  'keys rotate': {
    summary: 'Create the successor of a key; the old one stays valid for a while.',
    notes: [needsService, 'Needs gantry:keys and all that the key itself may do; --signing for a key that signs.'],
    operands: [{ name: 'id' }],
    options: ['overlap', 'days', 'signing', ...asking],
    examples: [
      { line: 'gantry keys rotate $ID --overlap 60m', what: 'prints the new key; the old one ends in an hour' },
    ],
  },
  'keys revoke': {
    summary: 'Revoke a key at once, in every process.',
    notes: [needsService, 'Needs gantry:keys.'],
    operands: [{ name: 'id' }],
    options: ['cancel-calls', ...asking],
    examples: [
      { line: 'gantry keys revoke $ID', what: 'requests with it are refused from now on' },
      { line: 'gantry keys revoke $ID --cancel-calls', what: 'also cancels the calls of its principal that wait' },
    ],
  },
  'policy test': {
    summary: 'Explain what the policy decides on a call, by which rule and why. Nothing runs.',
    notes: [
      'Asks the service that runs here, which needs gantry:policy; without one, or with --local, the configuration.',
      'The caller is yourself; with --key the caller who has that key, as the service would see it;',
      'with --principal or --tenant an identity that has only what the other options grant.',
      'The exit code is 0 for allow, 3 for deny and ask, 5 for unavailable.',
    ],
    operands: [
      { name: 'tool', completes: 'tools' },
      { name: 'json', optional: true, completes: 'files' },
    ],
    options: ['key', 'principal', 'tenant', 'permission', 'grant-role', 'tools', 'local', ...asking],
    examples: [
      { line: `gantry policy test demo:add '{"a":5,"b":3}'`, what: 'explains the decision on your own call' },
      { line: 'gantry policy test demo:add --principal bob --grant-role intern', what: 'explains that on another’s' },
      {
        line: 'gantry policy test demo:add --key $ID',
        what: 'explains that of a key, which may not even see the tool',
      },
    ],
  },
  'policy show': {
    summary: 'Show the policy that was set with policy set, and the version that calls see.',
    notes: [needsService, 'Needs gantry:policy and gantry:tenants.'],
    operands: [],
    options: asking,
    examples: [{ line: 'gantry policy show', what: 'prints its rules' }],
  },
  'policy set': {
    summary: 'Set the rules of a file as the policy of the service, in addition to its configuration.',
    notes: [
      needsService,
      'It can only narrow what the configuration allows, and is in force at once in every process.',
      'The file is JSON or YAML: { rules: [...], default }. Needs gantry:policy and gantry:tenants.',
    ],
    operands: [{ name: 'file', completes: 'files' }],
    options: asking,
    examples: [{ line: 'gantry policy set freeze.yaml', what: 'replaces what was set before' }],
  },
  'audit ls': {
    summary: 'List the audit log: who did what, newest first.',
    notes: [needsService, 'Needs gantry:audit, and gantry:tenants for --tenant, which may be * for all.'],
    operands: [],
    options: [...choosingRows, ...paging, ...asking],
    examples: [
      { line: 'gantry audit ls --call $ID', what: 'prints the entries of a call' },
      { line: 'gantry audit ls --phase refused --since 2026-01-31', what: 'prints what was refused since that day' },
    ],
  },
  'audit export': {
    summary: 'Write the audit log as lines of JSON, oldest first.',
    notes: [
      needsService,
      `Needs gantry:audit. With --tenant '*', which needs gantry:tenants, it is all of it with its seals, to verify elsewhere.`,
    ],
    operands: [],
    options: [...choosingRows, ...asking],
    examples: [{ line: `gantry audit export --tenant '*' > audit.jsonl`, what: 'writes all of it' }],
  },
  'audit verify': {
    summary: 'Verify the chain of the audit log against its seals, and report where it is broken.',
    notes: [
      'Asks the service that runs, which needs gantry:audit and gantry:tenants; else it reads the database itself.',
      'Prints the head of the chain. Kept elsewhere and given with --head, it proves that the end was not truncated.',
      'The exit code is 1 when an entry does not match its seal.',
    ],
    operands: [],
    options: ['file', 'head', ...asking],
    examples: [
      { line: 'gantry audit verify', what: 'checks all of it' },
      {
        line: 'gantry audit verify --file audit.jsonl --head $HEAD',
        what: 'checks an export, and that its end is there',
      },
    ],
  },
  'circuits ls': {
    summary: 'List the circuit breakers of the tools, at their backends.',
    notes: [needsService, 'Needs gantry:operate, and gantry:tenants for what other tenants see.'],
    operands: [],
    options: asking,
    examples: [{ line: 'gantry circuits ls', what: 'prints a line for each, with when the next trial may begin' }],
  },
  'circuits show': {
    summary: 'Show one circuit: its state, its window, which tenants see it and when the next trial may begin.',
    notes: [
      needsService,
      'The circuit is the name that `gantry circuits ls` prints, or its tool where that has one circuit.',
    ],
    operands: [{ name: 'circuit' }],
    options: asking,
    examples: [{ line: 'gantry circuits show weather:today', what: 'prints what is known' }],
  },
  'circuits reset': {
    summary: 'Close a circuit, so that calls go through again.',
    notes: [
      needsService,
      'Needs gantry:operate, and gantry:tenants for a tenant other than your own or for all of them. It is audited.',
    ],
    operands: [{ name: 'circuit' }],
    options: ['tenant', ...asking],
    examples: [{ line: 'gantry circuits reset weather:today', what: 'closes it for all tenants' }],
  },
  workers: {
    summary: 'List the processes of the service, by their last heartbeat.',
    notes: [
      needsService,
      'A process without a heartbeat for longer than its lease is lost. The column differs names what is not equal to the',
      'process that answers although it must be, such as callback_key; see docs/service.md.',
    ],
    operands: [],
    options: asking,
    examples: [{ line: 'gantry workers', what: 'prints a line for each' }],
  },
} as const satisfies { readonly [name: string]: CommandInfo }
