import { Readable } from 'node:stream'
import { type AuditQuery, auditPhases } from '../../storage/audit/audit-control.ts'
import { json } from '../answer.ts'
import type { Route } from '../route.ts'
import { checked } from '../route.ts'
import { pageOf, pageQuery, ref } from '../schemas.ts'

const base = { tag: 'audit', access: 'key', permission: 'gantry:audit' } as const
const word = { type: 'string', minLength: 1, maxLength: 500, pattern: '^[^\\u0000-\\u001f\\u007f]+$' } as const
const time = {
  type: 'string',
  maxLength: 40,
  pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+(Z|[+-][0-9:]+)?)?$',
} as const

const filter = {
  tenant: { ...word, description: 'Of another tenant, or `*` for all; needs gantry:tenants.' },
  principal: { ...word, description: 'The principal that called or acted.' },
  tool: {
    ...word,
    description: 'With its version, or without for all of them; or what was done, such as keys.revoke.',
  },
  call: { ...word, description: 'A call, with the calls inside it; or what else was acted on.' },
  status: { ...word, description: 'How calls ended, such as ok, failed or denied.' },
  phase: { enum: auditPhases, description: 'What the rows tell of.' },
  since: { ...time, description: 'From this time on.' },
  until: { ...time, description: 'Before this time.' },
} as const

export const auditRoutes: readonly Route[] = [
  {
    ...base,
    id: 'listAudit',
    method: 'GET',
    path: '/v1/audit',
    summary: 'The audit log, newest first. A page with few rows or none may still have a cursor to go on from.',
    query: { ...pageQuery, ...filter },
    answers: { 200: { description: 'A page of the audit log.', schema: pageOf('AuditRow') } },
    errors: ['INPUT_INVALID', 'DENIED'],
    async handle({ query, identity }, { audit }) {
      return json(await audit.list(query, identity))
    },
  },
  {
    ...base,
    id: 'exportAudit',
    method: 'GET',
    path: '/v1/audit/export',
    summary:
      'The audit log as lines of JSON, oldest first; with tenant=* all of it with its seals, for verification elsewhere.',
    query: filter,
    answers: { 200: { description: 'A line for each row or seal.', type: 'application/jsonl' } },
    errors: ['INPUT_INVALID', 'DENIED', 'RATE_LIMITED'],
    async handle({ query, identity, stop, hold }, { audit }) {
      hold()
      const content = Readable.from(inBlocks(audit.export(checked<AuditQuery>(query), identity, stop)))
      return { kind: 'content', status: 200, headers: { 'content-type': 'application/jsonl; charset=utf-8' }, content }
    },
  },
  {
    ...base,
    id: 'verifyAudit',
    method: 'POST',
    path: '/v1/audit/verify',
    summary:
      'Verifies the audit log of all tenants against its seals, and returns where it differs; needs gantry:tenants.',
    body: {
      members: {
        head: {
          type: 'string',
          pattern: '^[1-9][0-9]{0,14}:[0-9a-f]{64}$',
          description: 'The head of an earlier verification: shows whether the end was cut off since.',
        },
      },
      required: [],
    },
    answers: { 200: { description: 'The verdict.', schema: ref('AuditVerdict') } },
    errors: ['INPUT_INVALID', 'DENIED'],
    async handle({ body, identity, stop }, { audit }) {
      return json(await audit.verify(body.head as string | undefined, identity, stop))
    },
  },
]

const blockBytes = 65_536

/** Lines are short, and each chunk of a stream costs as much as a long one. */
async function* inBlocks(lines: AsyncIterable<string>): AsyncGenerator<string, void> {
  let block = ''
  for await (const line of lines) {
    block += line
    if (block.length < blockBytes) continue
    yield block
    block = ''
  }
  if (block !== '') yield block
}
