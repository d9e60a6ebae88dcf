import type { AuditFinding, AuditVerdict, AuditView } from '@gantry/contract'
import type { ObjectSchema } from './schemas.ts'

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const
const time = { type: 'string', format: 'date-time' } as const

const row = {
  type: 'object',
  description: 'A row of the audit record.',
  properties: {
    ...{ seq: { type: 'integer' }, at: time, tenant: text, principal: text },
    callId: { ...text, description: 'The call, or what else was acted on.' },
    phase: { ...text, description: 'start, intent, end, lost, released; refused; admin, redrive, discard.' },
    tool: { ...text, description: 'The tool, or what was done.' },
    ...{ fence: count, worker: text, status: text, code: text },
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
  description: 'Whether the audit record is as it was sealed.',
  properties: {
    ok: { type: 'boolean' },
    seals: count,
    rows: count,
    unsealed: { ...count, description: 'Rows at the end that no seal stands for yet.' },
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
