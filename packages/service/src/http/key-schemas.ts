import type { JsonSchema, KeyView } from '@gantry/contract'
import type { ObjectSchema } from './schemas.ts'

const text = { type: 'string' } as const
const texts = { type: 'array', items: text } as const
const time = { type: 'string', format: 'date-time' } as const

const key = {
  type: 'object',
  description: 'A key of the API, without what lets it in.',
  properties: {
    ...{ id: text, kind: { enum: ['bearer', 'signing'] }, name: text, tenant: text, principal: text },
    ...{ permissions: texts, roles: texts, tools: texts, state: { enum: ['live', 'expired', 'revoked'] } },
    ...{ createdAt: time, createdBy: text, expiresAt: time, revokedAt: time, lastUsedAt: time },
    replaces: { ...text, description: 'The key in whose place it came.' },
  },
  required: [
    ...(['id', 'kind', 'name', 'tenant', 'principal', 'permissions', 'roles', 'state'] as const),
    ...(['createdAt', 'createdBy', 'expiresAt'] as const),
  ],
} as const satisfies ObjectSchema<KeyView>

/** The schemas of keys, by their names in the document. */
export const keySchemas: { readonly [name: string]: JsonSchema } = { Key: key }
