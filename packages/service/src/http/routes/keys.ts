import type { JsonObject } from '@gantry/contract'
import { json } from '../answer.ts'
import type { KeyInput, RevokeInput, RotateInput } from '../authentication/key-control.ts'
import type { Route } from '../route.ts'
import { pageOf, pageQuery, ref } from '../schemas.ts'

const base = { tag: 'keys', access: 'key', permission: 'gantry:keys' } as const
/** What can stand in a header, a log line and a column. */
const word = { type: 'string', minLength: 1, maxLength: 200, pattern: '^[^\\u0000-\\u001f\\u007f]+$' } as const
const words = { type: 'array', items: word, maxItems: 200 } as const
const longestLifeMs = 10 * 365 * 24 * 3_600_000
const expiresMs = { type: 'integer', minimum: 1_000, maximum: longestLifeMs } as const
const publicKey = {
  type: 'string',
  pattern: '^[A-Za-z0-9_-]{43}$',
  description: 'Of an Ed25519 pair, for a key that signs: its 32 bytes in base64url. The private half is never sent.',
} as const
const made = {
  type: 'object',
  properties: { key: ref('Key'), text: { type: 'string', description: 'The key itself, shown this once.' } },
  required: ['key'],
} as const
const unkept = { 'cache-control': 'no-store' }

export const keyRoutes: readonly Route[] = [
  {
    ...base,
    id: 'listKeys',
    method: 'GET',
    path: '/v1/keys',
    summary: 'Keys of the caller’s tenant, newest first, without what lets them in.',
    query: {
      ...pageQuery,
      tenant: { ...word, description: 'Of another tenant, or `*` for all; needs gantry:tenants.' },
    },
    answers: { 200: { description: 'A page of them.', schema: pageOf('Key') } },
    errors: ['INPUT_INVALID'],
    async handle({ query, identity }, { keys }) {
      return json(await keys.list(query, identity))
    },
  },
  {
    ...base,
    id: 'createKey',
    method: 'POST',
    path: '/v1/keys',
    summary: 'Make a key that may do what its maker may, or less.',
    body: {
      members: {
        name: { ...word, maxLength: 100 },
        principal: { ...word, description: 'Who calls with it; `key:` and the name when absent.' },
        tenant: {
          ...word,
          not: { const: '*' },
          description: 'The caller’s when absent; another one needs gantry:tenants.',
        },
        permissions: { ...words, description: 'None when absent.' },
        roles: { ...words, description: 'None when absent.' },
        tools: { ...words, minItems: 1, description: 'Patterns of the tools that are there for it; all when absent.' },
        expiresMs: { ...expiresMs, description: 'How long it is good for; 90 days when absent.' },
        publicKey,
      },
      required: ['name'],
    },
    answers: { 200: { description: 'The key, with its text this once.', schema: made } },
    errors: ['INPUT_INVALID'],
    async handle({ body, identity }, { keys }) {
      return json(await keys.create(body as JsonObject & KeyInput, identity), 200, unkept)
    },
  },
  {
    ...base,
    id: 'rotateKey',
    method: 'POST',
    path: '/v1/keys/:id/rotate',
    summary: 'Make the successor of a key, which itself ends a while later.',
    body: {
      members: {
        overlapMs: {
          ...{ type: 'integer', minimum: 0, maximum: 30 * 24 * 3_600_000 },
          description: 'How long the old one stays good; a day when absent.',
        },
        expiresMs: {
          ...expiresMs,
          description: 'How long the new one is good for; as long as the old one when absent.',
        },
        publicKey,
      },
      required: [],
    },
    answers: { 200: { description: 'The new key, with its text this once.', schema: made } },
    errors: ['INPUT_INVALID', 'NOT_FOUND'],
    async handle({ params: { id = '' }, body, identity }, { keys }) {
      return json(await keys.rotate(id, body as JsonObject & RotateInput, identity), 200, unkept)
    },
  },
  {
    ...base,
    id: 'revokeKey',
    method: 'POST',
    path: '/v1/keys/:id/revoke',
    summary: 'End a key at once, everywhere; calls that were made with it go on unless they are cancelled too.',
    body: {
      members: {
        cancelCalls: {
          type: 'boolean',
          description: 'Cancel the calls of its principal that nobody works on; not when absent.',
        },
      },
      required: [],
    },
    answers: { 200: { description: 'The key as it is now.', schema: ref('Key') } },
    errors: ['INPUT_INVALID', 'NOT_FOUND'],
    async handle({ params: { id = '' }, body, identity }, { keys }) {
      return json(await keys.revoke(id, identity, body as JsonObject & RevokeInput))
    },
  },
]
