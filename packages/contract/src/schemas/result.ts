import type {
  ArtifactRef,
  LogLevel,
  ProgramCall,
  ProgramReport,
  Result,
  ResultRuntime,
  ResultStatus,
  ResultTool,
  Usage,
  Warning,
} from '../result.ts'
import { codeNames, errorDefs, issue } from './error.ts'
import { amount, anyJson, anyObject, count, dialect, every, type Shape, text, textMap, time } from './shape.ts'

export const statuses = every<ResultStatus>()(['ok', 'failed', 'denied', 'timeout', 'cancelled', 'unknown'])

const content = {
  type: 'object',
  description: 'A piece of content for a model or a person, as in MCP.',
  required: ['type'],
  oneOf: [
    { properties: { type: { const: 'text' }, text }, required: ['text'] },
    { properties: { type: { enum: ['image', 'audio'] }, data: text, mimeType: text }, required: ['data', 'mimeType'] },
    { properties: { type: { const: 'resource' }, resource: anyObject }, required: ['resource'] },
    {
      properties: {
        type: { const: 'resource_link' },
        uri: text,
        name: text,
        mimeType: text,
        size: { type: 'integer' },
      },
      required: ['uri', 'name'],
    },
  ],
} as const

const warning = {
  type: 'object',
  properties: {
    code: { enum: [...codeNames, 'DEPRECATED'] },
    message: text,
    issues: { type: 'array', items: { $ref: '#/$defs/issue' } },
  },
  required: ['code', 'message'],
} as const satisfies Shape<Warning>

const artifact = {
  type: 'object',
  properties: { id: text, name: text, mimeType: text, bytes: count, digest: text },
  required: ['id', 'name', 'mimeType', 'bytes', 'digest'],
} as const satisfies Shape<ArtifactRef>

const effect = {
  type: 'object',
  description: "An effect on the caller's world.",
  required: ['kind'],
  oneOf: [
    { properties: { kind: { const: 'file' }, artifact: { $ref: '#/$defs/artifact' } }, required: ['artifact'] },
    { properties: { kind: { const: 'tool' }, tool: text }, required: ['tool'] },
    { properties: { kind: { const: 'message' }, message: anyJson }, required: ['message'] },
  ],
} as const

const usage = {
  type: 'object',
  properties: { wallMs: amount, cpuMs: amount, memoryPeakBytes: amount, enforced: textMap, hit: text },
  required: ['wallMs', 'enforced'],
} as const satisfies Shape<Usage>

const programCall = {
  type: 'object',
  properties: {
    number: count,
    callId: text,
    tool: text,
    status: { enum: statuses },
    code: text,
    startedAt: time,
    durationMs: amount,
    recalled: { const: true },
  },
  required: ['number', 'callId', 'tool', 'status', 'startedAt', 'durationMs'],
} as const satisfies Shape<ProgramCall>

const program = {
  type: 'object',
  description: 'What a program over tools did in addition to its output.',
  properties: {
    language: { enum: ['javascript', 'typescript', 'python', 'workflow'] },
    printed: text,
    truncated: { const: true },
    calls: { type: 'array', items: programCall },
    omitted: count,
  },
  required: ['language', 'printed', 'calls'],
} as const satisfies Shape<ProgramReport>

const tool = {
  type: 'object',
  properties: { id: text, version: text },
  required: ['id', 'version'],
} as const satisfies Shape<ResultTool>

const runtime = {
  type: 'object',
  properties: {
    kind: text,
    isolation: text,
    image: { ...text, description: 'The digest of the image of a container.' },
    inner: { ...text, description: 'The kind of runtime that another host selected.' },
    packages: {
      type: 'object',
      description: 'The digests of the configured packages that the program could use, by kind.',
      properties: { python: text, node: text },
    },
  },
  required: ['kind', 'isolation'],
} as const satisfies Shape<ResultRuntime>

const result = {
  type: 'object',
  description: 'The one outcome of a call. Unknown members are allowed, so that old readers take newer results.',
  properties: {
    callId: text,
    tool: { ...tool, description: 'The tool that really ran; absent when none was found.' },
    backend: { type: 'object', properties: { kind: text, name: text }, required: ['kind', 'name'] },
    runtime,
    status: { enum: statuses },
    output: anyJson,
    content: { type: 'array', items: { $ref: '#/$defs/content' } },
    error: { $ref: '#/$defs/error' },
    warnings: { type: 'array', items: { $ref: '#/$defs/warning' } },
    artifacts: { type: 'array', items: { $ref: '#/$defs/artifact' } },
    effects: { type: 'array', items: { $ref: '#/$defs/effect' } },
    usage: { $ref: '#/$defs/usage' },
    program,
    attempts: count,
    startedAt: time,
    durationMs: amount,
  },
  required: [
    ...(['callId', 'status', 'output', 'content', 'warnings', 'artifacts', 'effects', 'usage'] as const),
    ...(['attempts', 'startedAt', 'durationMs'] as const),
  ],
} as const satisfies Shape<Result>

/** What every document that carries a Result needs. */
export const resultDefs = { ...errorDefs, issue, content, warning, artifact, effect, usage, result } as const

export const resultSchema = {
  $schema: dialect,
  $id: 'urn:gantry:contract:1:result',
  title: 'Result',
  $ref: '#/$defs/result',
  $defs: resultDefs,
} as const

const resultRef = { $ref: '#/$defs/result' } as const
const levels = every<LogLevel>()(['debug', 'info', 'warn', 'error'])
const number = { type: 'number' } as const

export const streamEventSchema = {
  $schema: dialect,
  $id: 'urn:gantry:contract:1:stream-event',
  title: 'StreamEvent',
  description:
    'One event of a call; ids increase within it. Unknown members are allowed, so that old readers take newer events; a new kind raises the version.',
  type: 'object',
  properties: { id: count, callId: text },
  required: ['id', 'callId', 'kind'],
  oneOf: [
    {
      properties: { kind: { const: 'progress' }, progress: number, total: number, message: text },
      required: ['progress'],
    },
    { properties: { kind: { const: 'chunk' }, data: anyJson }, required: ['data'] },
    {
      properties: { kind: { const: 'log' }, level: { enum: levels }, message: text, data: anyJson },
      required: ['level', 'message'],
    },
    { properties: { kind: { const: 'done' }, result: resultRef }, required: ['result'] },
    {
      properties: { kind: { const: 'error' }, error: { $ref: '#/$defs/error' }, result: resultRef },
      required: ['error', 'result'],
    },
  ],
  $defs: resultDefs,
} as const
