import type { JsonSchema, SandboxCredential, Tool } from '@gantry/contract'
import { type Check, part } from '@gantry/core/internal/options/option'
import { optionsCheck, refuse } from '@gantry/core/internal/options/options'
import { type DefinedTool, defineTool } from '@gantry/core/internal/tools/tool'
import {
  credentialMembers,
  credentialNoun,
  credentialsOf,
  reachIssues,
} from '@gantry/sandbox/internal/backends/request'
import { allowIssues } from '@gantry/sandbox/internal/egress-proxy/origins'

/** Tools that run a program of the caller's in a sandbox of its own. */
export function sandboxTools(): DefinedTool[] {
  return [codeRun, shellRun]
}

const count = { type: 'integer', minimum: 1 } as const

/** A file as it is handed in or out. */
const file = {
  description: 'Text, bytes as {"base64": "…"}, or {"artifact": "id"}.',
  anyOf: [
    { type: 'string' },
    {
      type: 'object',
      properties: { base64: { type: 'string' } },
      required: ['base64'],
      additionalProperties: false,
    },
    {
      type: 'object',
      properties: { artifact: { type: 'string' } },
      required: ['artifact'],
      additionalProperties: false,
    },
  ],
} as const

/** The common arguments of both tools. */
const surroundings = {
  stdin: { type: 'string', description: 'What the program reads from its standard input.' },
  files: {
    type: 'object',
    description: 'Files for the workspace by relative path.',
    additionalProperties: file,
  },
  profile: { type: 'string', description: 'How strong the sandbox must be: standard (default), hardened, wasm, dev.' },
  runtime: {
    type: 'string',
    description: 'The runtime to use, such as process or wasm; never weaker than the profile.',
  },
  limits: {
    type: 'object',
    description: 'Ceilings for this run.',
    properties: {
      wallMs: count,
      cpuMs: count,
      memoryBytes: count,
      pids: count,
      diskBytes: count,
      stdoutBytes: count,
      stderrBytes: count,
    },
    additionalProperties: false,
  },
  network: {
    description: 'What may be reached: "none" (default), or origins such as {"allow": ["https://api.example.com"]}.',
    anyOf: [
      { const: 'none' },
      {
        type: 'object',
        properties: { allow: { type: 'array', items: { type: 'string' }, maxItems: 64 } },
        required: ['allow'],
        additionalProperties: false,
      },
    ],
  },
} as const

/** For languages with deterministic interpreters. */
const deterministic = {
  description:
    'The same code gives the same output: random numbers come from `seed`, and the clock stands at `now`, ' +
    'in milliseconds since 1970 or as an RFC 3339 time. True means seed 0 at 2000-01-01T00:00:00Z, and false the same ' +
    'as leaving it out.',
  // One schema in place of alternatives, because the error of an alternative cannot name the member that is wrong.
  type: ['boolean', 'object'],
  properties: {
    seed: { type: 'integer', minimum: 0, maximum: 4_294_967_295 },
    now: { type: ['integer', 'string'], minimum: 0, maxLength: 40 },
  },
  additionalProperties: false,
} as const

/** The output of a program. */
const output = {
  type: 'object',
  properties: {
    exitCode: { type: 'integer', description: 'Absent when a signal ended the program.' },
    signal: { type: 'string' },
    stdout: { type: 'string' },
    stderr: { type: 'string' },
    truncated: { type: 'array', items: { enum: ['stdout', 'stderr', 'files'] } },
    value: { description: 'What the code returned, or the program wrote as {"value": …} on descriptor 3.' },
    files: {
      type: 'object',
      description:
        'Files that the program made or changed; pictures, tables and large ones as {"artifact": id} where files are kept.',
      additionalProperties: file,
    },
  },
  required: ['stdout', 'stderr'],
} as const

/** A sandbox has its own clock; this one only has to be longer. */
const timeoutMs = 3_600_000

const codeRun = defineTool({
  namespace: 'code',
  name: 'run',
  title: 'Run code',
  description: 'Runs a program in a fresh sandbox and returns its output, its value and the files it made.',
  tags: ['code', 'sandbox', 'python', 'javascript', 'typescript', 'bash'],
  docs:
    'The program has an empty environment, no network and a workspace of its own. `return` at the top level gives ' +
    'the value; a non-zero exit code is part of the output, not a failure. A limit that ends the program is one.',
  backends: [{ kind: 'sandboxed', takes: 'code' }],
  timeoutMs,
  inputSchema: {
    type: 'object',
    properties: {
      language: {
        type: 'string',
        description: 'python, javascript, typescript, bash, wasm, or another that is set up.',
      },
      code: { type: 'string', description: 'The program; for wasm the path of a WASI module in `files`.' },
      deterministic,
      ...surroundings,
    },
    required: ['language', 'code'],
    additionalProperties: false,
  },
  outputSchema: output,
  examples: [
    {
      title: 'Arithmetic in Python',
      args: { language: 'python', code: 'print(6*7)' },
      output: { exitCode: 0, stdout: '42\n', stderr: '' },
    },
    {
      title: 'A value from JavaScript',
      args: { language: 'javascript', code: 'return [1, 2, 3].map((n) => n * n)' },
      output: { exitCode: 0, stdout: '', stderr: '', value: [1, 4, 9] },
    },
  ],
})

const shellRun = defineTool({
  namespace: 'shell',
  name: 'run',
  title: 'Run a command',
  description: 'Runs a command or a shell script in a fresh sandbox and returns its output and the files it made.',
  tags: ['shell', 'command', 'sandbox', 'bash'],
  docs:
    'Give `argv` for one program with its arguments, which no shell ever reads, or `script` for a POSIX shell script. ' +
    'A non-zero exit code is part of the output, not a failure.',
  backends: [{ kind: 'sandboxed', takes: 'shell' }],
  timeoutMs,
  inputSchema: {
    type: 'object',
    properties: {
      argv: { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 1024 },
      script: { type: 'string' },
      ...surroundings,
    },
    oneOf: [{ required: ['argv'] }, { required: ['script'] }],
    additionalProperties: false,
  },
  outputSchema: output,
  examples: [
    {
      title: 'A command',
      args: { argv: ['wc', '-c'], stdin: 'hello' },
      output: { exitCode: 0, stdout: '5\n', stderr: '' },
    },
    {
      title: 'A script',
      args: { script: 'for n in 1 2 3; do echo "$n"; done' },
      output: { exitCode: 0, stdout: '1\n2\n3\n', stderr: '' },
    },
  ],
})

const { profile, runtime, limits, network, files } = surroundings

/** `code:session`: an interpreter that keeps its variables and files from one call to the next. */
export const codeSession: DefinedTool = defineTool({
  namespace: 'code',
  name: 'session',
  title: 'Code session',
  description:
    'Opens an interpreter that keeps its variables, imports and files between calls, runs code in it, and closes it.',
  tags: ['code', 'sandbox', 'session', 'python', 'javascript', 'typescript', 'notebook'],
  docs:
    '`open` gives a session, which only its caller can use, for as long as it is used now and then. `run` is as code:run, without stdin: ' +
    'hand it a file. `files` lists the files, brings one out by its `path`, or puts `files` in. `close` ends it. A run that is cancelled ' +
    'or reaches a limit ends the session; `ended` says so, and so does the next call. A session lives in one process and ' +
    'ends with it.',
  backends: [{ kind: 'session', takes: 'session' }],
  timeoutMs,
  inputSchema: {
    type: 'object',
    properties: {
      action: { enum: ['open', 'run', 'files', 'close'] },
      session: { type: 'string', maxLength: 200, description: 'What open gave; for run, files and close.' },
      language: { type: 'string', description: 'For open: python, javascript or typescript.' },
      code: { type: 'string', description: 'For run.' },
      path: { type: 'string', description: 'For files: the one to bring out; all are listed when it is absent.' },
      files,
      profile,
      runtime,
      limits,
      network,
    },
    required: ['action'],
    oneOf: [
      { properties: { action: { const: 'open' } }, required: ['language'] },
      { properties: { action: { const: 'run' } }, required: ['session', 'code'] },
      { properties: { action: { enum: ['files', 'close'] } }, required: ['session'] },
    ],
    additionalProperties: false,
  },
  outputSchema: {
    type: 'object',
    properties: {
      session: { type: 'string' },
      language: { type: 'string' },
      idleMs: { type: 'integer', description: 'How long it may rest.' },
      lifetimeMs: { type: 'integer', description: 'How long it may last.' },
      ...output.properties,
      ended: { type: 'string', description: 'Why the session ended with this run.' },
      list: {
        type: 'array',
        items: {
          type: 'object',
          properties: { path: { type: 'string' }, bytes: { type: 'integer' } },
          required: ['path', 'bytes'],
        },
      },
      files: { type: 'object', additionalProperties: file },
      put: { type: 'array', items: { type: 'string' } },
      closed: { type: 'boolean' },
    },
  },
  examples: [
    { title: 'A Python session', args: { action: 'open', language: 'python' } },
    { title: 'Code in it', args: { action: 'run', session: 'what open gave', code: 'x = 6 * 7\nprint(x)' } },
    { title: 'Its files', args: { action: 'files', session: 'what open gave' } },
    { title: 'The end of it', args: { action: 'close', session: 'what open gave' } },
  ],
})

/** Origins that callers' programs may reach, and credentials that they use without reading them. */
export interface SandboxNetworkOptions {
  /** Origins; narrower than the executor's rules, never wider. All that the rules allow when absent. */
  readonly allow?: readonly string[]
  /** By the environment variable of the placeholder, which is also the name in `grants` of a call. */
  readonly credentials?: { readonly [variable: string]: GrantedCredential }
}

export interface GrantedCredential extends SandboxCredential {
  /** Which tools may use it; all that run a program of their caller when absent. */
  readonly tools?: readonly string[]
}

/** Adds network access and credentials to tools that run callers' programs; throws CONFIG_INVALID at `/sandboxNetwork`. */
export function withSandboxNetwork(tools: readonly DefinedTool[], options: SandboxNetworkOptions = {}): DefinedTool[] {
  const takers = tools.filter(({ tool }) => tool.backends.some(({ takes }) => takes !== undefined))
  check(options, takers.map(idOf))
  const { allow, credentials = {} } = options
  return tools.map((defined) => {
    if (!takers.includes(defined)) return defined
    const id = idOf(defined)
    const own = Object.entries(credentials).filter(([, { tools: named }]) => named === undefined || named.includes(id))
    const granted = Object.fromEntries(own.map(([name, { tools: _tools, ...credential }]) => [name, credential]))
    const tool = own.length === 0 ? defined.tool : withGrants(defined.tool, granted)
    return { ...defined, tool: allow === undefined ? tool : { ...tool, egress: allow } }
  })
}

/** A caller requests credentials by name, and sees their names and hosts; values are never shown. */
function withGrants(tool: Tool, credentials: { readonly [variable: string]: SandboxCredential }): Tool {
  const { properties, ...schema } = tool.inputSchema as { readonly properties?: object }
  const each = Object.entries(credentials).map(([name, { hosts }]) => `${name} for ${hosts.join(', ')}`)
  const description =
    'Credentials by name; each is an environment variable whose placeholder becomes the secret in requests to its ' +
    `hosts, which network must allow: ${each.join('; ')}.`
  const grants = { type: 'array', items: { enum: Object.keys(credentials) }, uniqueItems: true, description }
  return {
    ...tool,
    inputSchema: { ...schema, properties: { ...properties, grants } } as Tool['inputSchema'],
    backends: tool.backends.map((binding) => (binding.takes === undefined ? binding : { ...binding, credentials })),
  }
}

function idOf({ tool }: DefinedTool): string {
  return `${tool.namespace}:${tool.name}`
}

function networkCheck(takers: readonly string[]) {
  const credential = optionsCheck<GrantedCredential>({
    members: {
      ...credentialMembers,
      tools: part(isSubsetOf(takers), `a list of ${takers.join(', ')}`, { type: 'array', items: { type: 'string' } }),
    },
    required: ['secret', 'hosts'],
    noun: credentialNoun,
  })
  return optionsCheck<SandboxNetworkOptions>({
    members: { allow: origins, credentials: credentialsOf(credential) },
  })
}

/** The schema of `sandboxNetwork`, without the names of tools. */
export function sandboxNetworkSchema(): JsonSchema {
  return networkCheck([]).schema ?? true
}

function check(options: SandboxNetworkOptions, takers: readonly string[]): void {
  const at = '/sandboxNetwork'
  const issues = networkCheck(takers).issues(options, at)
  const { allow, credentials } = options
  refuse('network of sandboxes', issues.length > 0 ? issues : reachIssues(credentials, `${at}/credentials`, allow))
}

const origins: Check = {
  schema: { type: 'array', items: { type: 'string' } },
  fits: (value) => allowIssues(value, '').length === 0,
  issues: allowIssues,
}

function isSubsetOf(ids: readonly string[]): (value: unknown) => boolean {
  return (value) => Array.isArray(value) && value.every((id) => ids.includes(id))
}
