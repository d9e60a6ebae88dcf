import type {
  ApprovalView,
  CallView,
  DeadLetter,
  DependencyView,
  Deprecation,
  EffectClass,
  HealthView,
  JsonSchema,
  UnrecordedView,
  WorkerView,
} from '@gantry/contract'
import type { FoundTool, ToolDoc } from '@gantry/core'
import type { CircuitSummary } from '@gantry/core/internal/resilience/circuit-state'
import type { RuntimeInfo } from '@gantry/sandbox'
import { auditSchemas, keySchemas, policySchemas } from './operator-schemas.ts'
import type { ErrorBody } from './service.ts'

/** An object schema that follows a type: a member that only one of them has does not compile. */
export interface ObjectSchema<T> {
  readonly type: 'object'
  readonly description?: string
  readonly properties: { readonly [Key in keyof Required<T>]: JsonSchema }
  readonly required: readonly (keyof T)[]
}

const text = { type: 'string' } as const
const texts = { type: 'array', items: text } as const
const count = { type: 'integer', minimum: 0 } as const
const amount = { type: 'number', minimum: 0 } as const
const anyObject = { type: 'object' } as const
const time = { type: 'string', format: 'date-time' } as const

/** A schema of the document, by its name there. */
export function ref(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` }
}

/** A page of a list. */
export function pageOf(name: string): JsonSchema {
  return {
    type: 'object',
    properties: {
      items: { type: 'array', items: ref(name) },
      cursor: { ...text, description: 'The cursor of the next page.' },
    },
    required: ['items'],
  }
}

/** A list without pages. */
export function listOf(name: string): JsonSchema {
  return { type: 'object', properties: { items: { type: 'array', items: ref(name) } }, required: ['items'] }
}

export const idParameter = { ...text, minLength: 1 } as const
export const pageQuery = {
  limit: { type: 'integer', minimum: 1, maximum: 200, description: 'How many at most; 50 when absent.' },
  cursor: { ...text, maxLength: 8_192, description: 'From the page before.' },
} as const

const errorBody = {
  type: 'object',
  properties: { error: ref('Error') },
  required: ['error'],
} as const satisfies ObjectSchema<ErrorBody>

const accepted = {
  type: 'object',
  description: 'A call that is stored and has not ended.',
  properties: { callId: text, state: text },
  required: ['callId', 'state'],
} as const

const states = ['queued', 'delayed', 'asked', 'running', 'ok', 'failed', 'denied', 'timeout', 'cancelled', 'unknown']

const callView = {
  type: 'object',
  description: 'The state of a call.',
  properties: {
    callId: text,
    kind: { enum: ['call', 'chain', 'code'] },
    tool: text,
    state: { enum: states },
    principal: text,
    priority: { type: 'integer' },
    createdAt: time,
    startedAt: time,
    finishedAt: time,
    attempts: count,
    args: { description: 'Its arguments, or its chain, without secrets; only when requested with `args=true`.' },
    recent: {
      description: 'The last progress of a running call; only when a call is requested by its id.',
      type: 'array',
      items: ref('StreamEvent'),
    },
    result: { description: 'Once it has ended.', anyOf: [ref('Result'), ref('ChainResult')] },
  },
  required: ['callId', 'kind', 'tool', 'state', 'principal', 'createdAt', 'attempts'],
} as const satisfies ObjectSchema<CallView>

const deadLetter = {
  type: 'object',
  description: 'A call or message that failed for good and waits for an operator.',
  properties: {
    id: text,
    callId: text,
    source: text,
    reason: text,
    code: text,
    tool: text,
    payload: {
      description:
        'The requested arguments without members whose keys mark secrets; only of one by its id, for holders of `gantry:operate`.',
    },
    deliveries: count,
    createdAt: time,
    redriven: {
      type: 'object',
      properties: { at: time, by: text, callId: text },
      required: ['at', 'by', 'callId'],
    },
    discarded: { type: 'object', properties: { at: time, by: text }, required: ['at', 'by'] },
  },
  required: ['id', 'source', 'reason', 'code', 'deliveries', 'createdAt'],
} as const satisfies ObjectSchema<DeadLetter>

const approval = {
  type: 'object',
  description: 'A request for approval of a call.',
  properties: {
    id: text,
    state: { enum: ['open', 'approved', 'denied', 'expired', 'void'] },
    callId: { ...text, description: 'The call that waits.' },
    innerId: { ...text, description: 'The inner call that requires approval, when it is one of a chain.' },
    tool: text,
    principal: { ...text, description: 'The caller.' },
    reason: text,
    args: {
      description:
        'Exactly what will run, but for known secrets and members that the tool declares as secret; only when one is asked for by id.',
    },
    argsBytes: { ...count, description: 'Of the arguments as JSON in UTF-8.' },
    argsSha256: { ...text, description: 'Of the same JSON.' },
    hidden: { ...texts, description: 'JSON Pointers to what is hidden in the arguments.' },
    truncated: {
      ...texts,
      description:
        'JSON Pointers to what is shown in part; the empty one says that arguments are left out. `full` shows all.',
    },
    notes: {
      type: 'array',
      description: 'What a reader of the arguments could miss: the target of a URL, and invisible characters.',
      items: {
        type: 'object',
        properties: {
          kind: { enum: ['url', 'invisible'] },
          path: text,
          host: text,
          url: text,
          userinfo: text,
          characters: texts,
        },
        required: ['kind', 'path'],
      },
    },
    notesOmitted: { ...count, description: 'How many notes are left out because there are too many of their kind.' },
    files: {
      type: 'array',
      description:
        'The files that the arguments name by their ids, as they were when the call asked; a decision is about these digests. Without a digest there is no such file.',
      items: {
        type: 'object',
        properties: { path: text, id: text, name: text, mimeType: text, bytes: count, digest: text },
        required: ['path', 'id'],
      },
    },
    fingerprint: {
      ...text,
      description:
        'Hash of the tool, its definition, the arguments with their files, and the caller; a decision is about these alone.',
    },
    approvers: { ...texts, description: 'Roles that may decide, in addition to holders of `gantry:approve`.' },
    askedAt: time,
    expiresAt: time,
    decided: {
      type: 'object',
      properties: {
        by: text,
        at: time,
        why: text,
        as: { enum: ['owner'], description: 'Of a decision on a call of one’s own: by which right.' },
      },
      required: ['by', 'at'],
    },
  },
  required: [
    ...(['id', 'state', 'callId', 'tool', 'principal', 'reason', 'argsBytes', 'fingerprint'] as const),
    ...(['approvers', 'askedAt', 'expiresAt'] as const),
  ],
} as const satisfies ObjectSchema<ApprovalView>

const worker = {
  type: 'object',
  properties: {
    worker: text,
    host: text,
    pid: count,
    roles: texts,
    slots: count,
    running: count,
    state: { enum: ['starting', 'ready', 'draining', 'gone'] },
    startedAt: time,
    seenAt: time,
  },
  required: ['worker', 'host', 'pid', 'roles', 'slots', 'running', 'state', 'startedAt', 'seenAt'],
} as const satisfies ObjectSchema<WorkerView>

const health = {
  type: 'object',
  description: 'The health of one process.',
  properties: {
    worker: text,
    ready: { type: 'boolean' },
    problems: texts,
    notes: texts,
    dependencies: {
      type: 'array',
      items: {
        type: 'object',
        properties: { dependency: text, up: { type: 'boolean' }, since: time, reason: text },
        required: ['dependency', 'up'],
      } as const satisfies ObjectSchema<DependencyView>,
    },
    unrecorded: {
      type: 'array',
      items: {
        type: 'object',
        description: 'A call whose outcome is held in memory, because neither the database nor the spool accepts it.',
        properties: { callId: text, tool: text, tenant: text, since: time, tries: count, reason: text },
        required: ['callId', 'tool', 'tenant', 'since', 'tries', 'reason'],
      } as const satisfies ObjectSchema<UnrecordedView>,
    },
  },
  required: ['worker', 'ready', 'problems', 'notes', 'dependencies', 'unrecorded'],
} as const satisfies ObjectSchema<HealthView>

const circuitState = {
  state: { enum: ['closed', 'open', 'trial'] },
  since: amount,
  calls: { ...count, description: 'The counted calls in the window.' },
  failures: { ...count, description: 'The failures of the backend among these calls.' },
  openMs: amount,
  retryAt: { ...amount, description: 'While it is open: when the next trial may begin.' },
} as const
const circuitFacts = ['state', 'since', 'calls', 'failures', 'openMs'] as const

const circuit = {
  type: 'object',
  description:
    'The circuit breaker of a tool at a backend, or at one origin behind it; times are milliseconds since 1970. It is open when several tenants find the backend at fault, or the only tenant does.',
  properties: {
    key: text,
    ...circuitState,
    tenants: {
      type: 'array',
      description: 'The state for each tenant: the caller’s own, and all with gantry:tenants.',
      items: {
        type: 'object',
        properties: { tenant: text, ...circuitState },
        required: ['tenant', ...circuitFacts],
      },
    },
  },
  required: ['key', ...circuitFacts, 'tenants'],
} as const satisfies ObjectSchema<CircuitSummary & { readonly retryAt?: number }>

const runtime = {
  type: 'object',
  description: 'A runtime for programs, as `gantry doctor` shows it.',
  properties: {
    kind: text,
    available: { type: 'boolean' },
    isolation: text,
    version: { type: ['string', 'null'] },
    startMs: { type: ['number', 'null'] },
    limits: { type: 'object', additionalProperties: text },
    languages: texts,
    attacks: texts,
    breached: texts,
    reason: { ...text, description: 'Why it is not available.' },
    remedy: text,
  },
  required: ['kind', 'available', 'isolation', 'version', 'startMs', 'limits', 'languages', 'attacks', 'breached'],
} as const satisfies ObjectSchema<RuntimeInfo & { readonly reason?: string; readonly remedy?: string }>

const foundTool = {
  type: 'object',
  description: 'A match of a search.',
  properties: { id: text, version: text, title: text, description: text, tags: texts, score: { type: 'number' } },
  required: ['id', 'version', 'description', 'tags', 'score'],
} as const satisfies ObjectSchema<FoundTool>

const deprecated = {
  type: 'object',
  properties: { message: text, replacement: text },
  required: ['message'],
} as const satisfies ObjectSchema<Deprecation>

const toolDoc = {
  type: 'object',
  description: 'Documentation of one tool; the level decides which parts are there.',
  properties: {
    id: text,
    version: text,
    title: text,
    summary: text,
    tags: texts,
    effect: text,
    deprecated,
    declaration: text,
    digest: text,
    inputSchema: { type: ['object', 'boolean'] },
    outputSchema: { type: ['object', 'boolean'] },
    required: texts,
    defaults: anyObject,
    description: text,
    annotations: anyObject,
    docs: text,
    examples: { type: 'array', items: anyObject },
    permissions: texts,
    versions: texts,
    omitted: texts,
  },
  required: ['id', 'version', 'summary', 'effect', 'omitted'],
} as const satisfies ObjectSchema<ToolDoc>

/** A tool as in a list. */
export interface ListedTool {
  readonly id: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly tags: readonly string[]
  readonly effect: EffectClass
  readonly deprecated?: Deprecation
  readonly digest: string
}

const listedTool = {
  type: 'object',
  description: 'A tool as a list shows it.',
  properties: {
    id: text,
    version: text,
    title: text,
    description: text,
    tags: texts,
    effect: text,
    deprecated,
    digest: text,
  },
  required: ['id', 'version', 'description', 'tags', 'effect', 'digest'],
} as const satisfies ObjectSchema<ListedTool>

/** One version of a tool in the catalog. */
export interface CatalogTool {
  readonly id: string
  readonly version: string
  readonly digest: string
  readonly effect: string
  readonly source: string
}

const catalogTool = {
  type: 'object',
  properties: { id: text, version: text, digest: text, effect: text, source: text },
  required: ['id', 'version', 'digest', 'effect', 'source'],
} as const satisfies ObjectSchema<CatalogTool>

/** The schemas of the views; those of the contract are components of the document as well. */
export const viewSchemas: { readonly [name: string]: JsonSchema } = {
  ErrorBody: errorBody,
  Accepted: accepted,
  CallView: callView,
  DeadLetter: deadLetter,
  Approval: approval,
  ...keySchemas,
  ...auditSchemas,
  Worker: worker,
  Health: health,
  Circuit: circuit,
  Runtime: runtime,
  FoundTool: foundTool,
  ListedTool: listedTool,
  ToolDoc: toolDoc,
  CatalogTool: catalogTool,
  ...policySchemas,
}
