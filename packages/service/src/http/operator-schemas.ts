import type { AuditFinding, AuditVerdict, AuditView, JsonSchema, KeyView } from '@gantry/contract'
import type { PolicyAnswer, PolicyView } from '../admission/policy/policy-control.ts'
import type { ObjectSchema } from './schemas.ts'

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const
const time = { type: 'string', format: 'date-time' } as const

const row = {
  type: 'object',
  description: 'An entry of the audit log.',
  properties: {
    seq: { type: 'integer' },
    at: time,
    tenant: text,
    principal: text,
    callId: { ...text, description: 'The call, or what else was acted on.' },
    phase: { ...text, description: 'start, intent, end, lost, released; refused; admin, redrive, discard.' },
    tool: { ...text, description: 'The tool, or what was done.' },
    fence: count,
    worker: text,
    status: text,
    code: text,
    config: { ...text, description: 'The version of the configuration, with its policy, that decided.' },
    details: { description: 'Of privileged calls the arguments, without secrets.' },
  },
  required: ['seq', 'at', 'tenant', 'principal', 'callId', 'phase', 'tool', 'fence'],
} as const satisfies ObjectSchema<AuditView>

const finding = {
  type: 'object',
  properties: {
    what: { enum: ['changed', 'missing', 'inserted', 'order', 'seal', 'chain', 'key', 'unproven', 'head'] },
    seq: { type: 'integer', description: 'The number of the row.' },
    seal: { type: 'integer', description: 'The number of the seal.' },
    message: text,
  },
  required: ['what', 'message'],
} as const satisfies ObjectSchema<AuditFinding>

const verdict = {
  type: 'object',
  description: 'The verification of the audit log against its seals.',
  properties: {
    ok: { type: 'boolean' },
    seals: count,
    rows: count,
    unsealed: { ...count, description: 'Rows at the end that are not sealed yet.' },
    head: { ...text, description: 'The last seal: kept elsewhere, it shows later that the end was not cut off.' },
    retired: {
      description: 'The last seal that the retention removed, and whether a key proves it.',
      type: 'object',
      properties: { seal: count, uptoSeq: count, at: time, proven: { type: 'boolean' } },
      required: ['seal', 'uptoSeq', 'at', 'proven'],
    },
    findings: { type: 'array', items: finding, description: 'The first hundred.' },
    findingsTotal: count,
  },
  required: ['ok', 'seals', 'rows', 'unsealed', 'findings', 'findingsTotal'],
} as const satisfies ObjectSchema<AuditVerdict>

export const auditSchemas = { AuditRow: row, AuditVerdict: verdict } as const

const texts = { type: 'array', items: text } as const

const key = {
  type: 'object',
  description: 'A key of the API, without its secret.',
  properties: {
    id: text,
    kind: { enum: ['bearer', 'signing'] },
    name: text,
    tenant: text,
    principal: text,
    permissions: texts,
    roles: texts,
    tools: texts,
    state: { enum: ['live', 'expired', 'revoked'] },
    createdAt: time,
    createdBy: text,
    expiresAt: time,
    revokedAt: time,
    lastUsedAt: time,
    replaces: { ...text, description: 'The key that it replaces.' },
  },
  required: [
    ...(['id', 'kind', 'name', 'tenant', 'principal', 'permissions', 'roles', 'state'] as const),
    ...(['createdAt', 'createdBy', 'expiresAt'] as const),
  ],
} as const satisfies ObjectSchema<KeyView>

/** The schemas of keys, by their names in the document. */
export const keySchemas: { readonly [name: string]: JsonSchema } = { Key: key }

const anyObject = { type: 'object' } as const

const policy = {
  type: 'object',
  description: 'The policy in force.',
  properties: {
    version: { ...text, description: 'The version of the current snapshot, as in the audit log.' },
    stored: {
      type: 'object',
      description: 'The policy that was set over the API; absent while none was.',
      properties: { version: count, document: anyObject, createdAt: time, createdBy: text },
      required: ['version', 'document', 'createdAt', 'createdBy'],
    },
  },
  required: ['version'],
} as const satisfies ObjectSchema<PolicyView>

const policyAnswer = {
  type: 'object',
  description: 'The decision on a call, and its reason.',
  properties: {
    version: text,
    tool: text,
    effect: { enum: ['allow', 'deny', 'ask', 'unavailable'] },
    reason: text,
    rule: { ...text, description: 'The rule that decides; absent when none does.' },
    missing: { ...texts, description: 'Permissions that the tool requires and the caller lacks.' },
    floor: { ...text, description: 'The least isolation that a program of the call would get.' },
    approvers: { ...texts, description: 'Roles that may approve, in addition to the permission to.' },
    exists: { type: 'boolean', description: 'Where false, a call ends with TOOL_NOT_FOUND.' },
    visible: { type: 'boolean', description: 'Whether discovery shows the tool to the caller.' },
    valid: { type: 'boolean', description: 'Where false, a call ends with INPUT_INVALID before this is decided.' },
  },
  required: ['version', 'tool', 'effect', 'reason', 'missing', 'exists', 'visible', 'valid'],
} as const satisfies ObjectSchema<PolicyAnswer>

/** The schemas of the policy routes. */
export const policySchemas: { readonly [name: string]: JsonSchema } = { Policy: policy, PolicyAnswer: policyAnswer }
