import type { Call, ChainResult, ChainStep, ErrorInfo, Result, StreamEvent, Tool } from '../src/index.ts'

/** Values of each type, checked by TypeScript here and by the JSON Schemas in the test. */

export const minimalTool = {
  namespace: 'math',
  name: 'add',
  version: '1.0.0',
  description: 'Adds two numbers.',
  inputSchema: true,
  backends: [{ kind: 'local' }],
  effect: 'read',
} satisfies Tool

export const fullTool = {
  ...minimalTool,
  title: 'Add',
  inputSchema: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },
  outputSchema: { type: 'object' },
  annotations: { title: 'Add', readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  icons: [{ src: 'data:image/png;base64,AA==', mimeType: 'image/png', sizes: ['48x48'] }],
  tags: ['math'],
  docs: '# Add',
  examples: [{ title: 'Small', description: 'One and two.', args: { a: 1 }, output: { result: 3 } }],
  deprecated: { message: 'Use sum.', replacement: 'math:sum' },
  aliases: ['math:plus'],
  backends: [{ kind: 'http', name: 'math', url: 'https://example.com', headers: { accept: 'application/json' } }],
  effect: 'keyed',
  output: 'strict',
  timeoutMs: 5_000,
  limits: { argsBytes: 1_000, argsDepth: 8, resultBytes: 1_000, resultDepth: 8 },
  permissions: ['math:use'],
  secrets: ['MATH_KEY'],
  egress: ['https://example.com'],
  profile: 'standard',
  runtime: 'process',
  concurrencyKey: 'math',
  concurrency: 4,
  retry: { attempts: 3, delayMs: 100, maxDelayMs: 1_000 },
  breaker: true,
  onCircuitOpen: 'wait',
  approval: 'always',
  cache: { ttlMs: 1_000, scope: 'tenant' },
  placement: { region: 'eu' },
  background: false,
  cost: 3,
} satisfies Required<Tool>

export const minimalCall = { callId: 'c1', tool: 'math:add', args: {} } satisfies Call

export const fullCall = {
  callId: 'c2',
  tool: 'math:add:^1',
  args: { a: 1, deep: { list: [null, true, 'x'] } },
  idempotencyKey: 'k',
  schemaDigest: 'd'.repeat(64),
  session: 's',
  priority: -1,
  deadline: '2026-01-01T00:00:00.000Z',
  replyTo: 'replies',
  trace: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', tracestate: 'a=b' },
} satisfies Required<Call>

export const minimalError = {
  code: 'INPUT_INVALID',
  message: 'The arguments do not fit.',
  stage: 'validate-input',
  retryable: false,
  effect: 'none',
} satisfies ErrorInfo

export const fullError = {
  ...minimalError,
  details: { issues: [{ path: '/a', message: 'must be a number' }], step: 'x' },
  cause: { name: 'Error', message: 'outer', code: 'E1', cause: { name: 'Error', message: 'inner' } },
  exception: true,
} satisfies Required<ErrorInfo>

export const minimalResult = {
  callId: 'c1',
  status: 'ok',
  output: null,
  content: [],
  warnings: [],
  artifacts: [],
  effects: [],
  usage: { wallMs: 0.25, enforced: {} },
  attempts: 1,
  startedAt: '2026-01-01T00:00:00.000Z',
  durationMs: 0.25,
} satisfies Result

const artifact = { id: 'a1', name: 'plot.png', mimeType: 'image/png', bytes: 10, digest: 'ab' }

export const fullResult = {
  ...minimalResult,
  tool: { id: 'math:add', version: '1.0.0' },
  backend: { kind: 'local', name: 'local' },
  runtime: { kind: 'process', isolation: 'namespaces' },
  status: 'failed',
  output: { partial: [1] },
  content: [
    { type: 'text', text: 'No.' },
    { type: 'image', data: 'AA==', mimeType: 'image/png' },
    { type: 'audio', data: 'AA==', mimeType: 'audio/wav' },
    { type: 'resource', resource: { uri: 'file:///a', text: 'a' } },
    { type: 'resource_link', uri: 'file:///a', name: 'a', mimeType: 'text/plain' },
  ],
  error: fullError,
  warnings: [
    {
      code: 'OUTPUT_INVALID',
      message: 'No fit.',
      issues: [{ path: '/x', schemaPath: '/type', keyword: 'type', message: 'no' }],
    },
    { code: 'DEPRECATED', message: 'Old.' },
  ],
  artifacts: [artifact],
  effects: [
    { kind: 'file', artifact },
    { kind: 'tool', tool: 'math:sum' },
    { kind: 'message', message: null },
  ],
  usage: { wallMs: 1, cpuMs: 1, memoryPeakBytes: 1, enforced: { wallMs: 'timer' }, hit: 'wallMs' },
  program: {
    language: 'typescript',
    printed: 'hello',
    truncated: true,
    calls: [
      {
        ...{ number: 1, callId: 'c1.1', tool: 'math:sum', status: 'failed', code: 'DENIED' },
        ...{ startedAt: '2026-01-01T00:00:00.000Z', durationMs: 1, recalled: true },
      },
    ],
    omitted: 1,
  },
} satisfies Required<Result>

export const events = [
  { id: 0, callId: 'c1', kind: 'progress', progress: 1, total: 3, message: 'one' },
  { id: 1, callId: 'c1', kind: 'chunk', data: null },
  { id: 2, callId: 'c1', kind: 'log', level: 'warn', message: 'careful', data: { a: 1 } },
  { id: 3, callId: 'c1', kind: 'done', result: minimalResult },
  { id: 4, callId: 'c1', kind: 'error', error: minimalError, result: fullResult },
] satisfies StreamEvent[]

export const chain = [
  { tool: 'a:b' },
  {
    id: 'full',
    tool: 'a:b:^1',
    args: { x: '{{prev.y}}' },
    usePrevious: 'all',
    when: {
      all: [
        '{{prev.ok}}',
        true,
        { any: [{ not: { exists: '{{input.x}}' } }, { value: 1, equals: null }, { value: 1, notEquals: 2 }] },
        { value: '{{prev.n}}', in: [1, 2] },
        { value: '{{prev.n}}', greaterThan: 1 },
        { value: '{{prev.n}}', lessThan: 9 },
      ],
    },
    forEach: '{{prev.list}}',
    concurrency: 2,
    timeoutMs: 10,
    retry: { attempts: 2 },
    onError: { output: null },
  } satisfies Required<Extract<ChainStep, { tool: string }>>,
  { tool: 'a:b', usePrevious: true, forEach: [1, 'two'], onError: 'continue' },
  { id: 'group', parallel: [{ tool: 'a:b' }, { id: 'm', tool: 'a:b', onError: 'stop' }], when: false, concurrency: 2 },
] satisfies ChainStep[]

export const chainResult = {
  chainId: 'ch1',
  status: 'failed',
  output: null,
  error: fullError,
  steps: [
    { id: 'a', tool: 'a:b', state: 'ok', output: 1, results: [minimalResult], durationMs: 1 },
    {
      id: 'e',
      tool: 'a:b',
      state: 'failed',
      output: [1, null],
      error: minimalError,
      results: [],
      elements: ['ok', 'failed', 'pending'],
      durationMs: 0,
    },
    {
      id: 'g',
      state: 'skipped',
      output: null,
      results: [],
      steps: [{ id: 'm', tool: 'a:b', state: 'pending', output: null, results: [], durationMs: 0 }],
      durationMs: 0,
    },
  ],
  startedAt: '2026-01-01T00:00:00.000Z',
  durationMs: 3,
} satisfies Required<ChainResult>
