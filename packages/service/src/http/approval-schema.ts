import type { ApprovalView, JsonSchema } from '@gantry/contract'
import type { ObjectSchema } from './schemas.ts'

const text = { type: 'string' } as const
const texts = { type: 'array', items: text } as const
const count = { type: 'integer', minimum: 0 } as const
const time = { type: 'string', format: 'date-time' } as const

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
    webhook: {
      type: 'object',
      description:
        'Whether the webhook of approvals has its message; only when one is asked for by id, by a principal that may decide.',
      properties: { state: { enum: ['waiting', 'sent', 'failed'] }, tries: count, error: text },
      required: ['state', 'tries'],
    },
  },
  required: [
    ...(['id', 'state', 'callId', 'tool', 'principal', 'reason', 'argsBytes', 'fingerprint'] as const),
    ...(['approvers', 'askedAt', 'expiresAt'] as const),
  ],
} as const satisfies ObjectSchema<ApprovalView>

export const approvalSchemas: { readonly [name: string]: JsonSchema } = { Approval: approval }
