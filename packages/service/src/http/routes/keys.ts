import { json } from '../answer.ts'
import type { KeyInput, RevokeInput, RotateInput } from '../authentication/key-control.ts'
import { checked, type Route } from '../route.ts'
import { pageOf, pageQuery, ref } from '../schemas.ts'

const base = { tag: 'keys', access: 'key', permission: 'gantry:keys' } as const
/** Safe for a header, a log line and a column. */
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
    summary: 'Keys of the caller’s tenant, newest first, without their secrets.',
    query: {
      ...pageQuery,
      tenant: { ...word, description: 'Of another tenant, or `*` for all; needs gantry:tenants.' },
    },
    answers: { 200: { description: 'A page of keys.', schema: pageOf('Key') } },
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
    summary: 'Create a key with at most the permissions of its maker.',
    body: {
      members: {
        name: { ...word, maxLength: 100 },
        principal: { ...word, description: 'The principal of its calls; `key:` and the name when absent.' },
        tenant: {
          ...word,
          not: { const: '*' },
          description: 'The caller’s when absent; another one needs gantry:tenants.',
        },
        permissions: { ...words, description: 'None when absent.' },
        roles: { ...words, description: 'None when absent.' },
        tools: { ...words, minItems: 1, description: 'Patterns of the tools that are visible to it; all when absent.' },
        expiresMs: { ...expiresMs, description: 'Its validity; 90 days when absent.' },
        publicKey,
      },
      required: ['name'],
    },
    answers: { 200: { description: 'The key, with its text this once.', schema: made } },
    errors: ['INPUT_INVALID'],
    async handle({ body, identity }, { keys }) {
      return json(await keys.create(checked<KeyInput>(body), identity), 200, unkept)
    },
  },
  {
    ...base,
    id: 'rotateKey',
    method: 'POST',
    path: '/v1/keys/:id/rotate',
    summary: 'Rotate a key: create its successor; the old key expires a while later.',
    body: {
      members: {
        overlapMs: {
          type: 'integer',
          minimum: 0,
          maximum: 30 * 24 * 3_600_000,
          description: 'How long the old key stays valid; a day when absent.',
        },
        expiresMs: {
          ...expiresMs,
          description: 'The validity of the new key; that of the old one when absent.',
        },
        publicKey,
      },
      required: [],
    },
    answers: { 200: { description: 'The new key, with its text this once.', schema: made } },
    errors: ['INPUT_INVALID', 'NOT_FOUND'],
    async handle({ params: { id = '' }, body, identity }, { keys }) {
      return json(await keys.rotate(id, checked<RotateInput>(body), identity), 200, unkept)
    },
  },
  {
    ...base,
    id: 'revokeKey',
    method: 'POST',
    path: '/v1/keys/:id/revoke',
    summary:
      'Revoke a key at once, in all processes; calls that were made with it go on unless they are cancelled too.',
    body: {
      members: {
        cancelCalls: {
          type: 'boolean',
          description: 'Cancel the calls of its principal that no worker has claimed; not when absent.',
        },
      },
      required: [],
    },
    answers: { 200: { description: 'The current key.', schema: ref('Key') } },
    errors: ['INPUT_INVALID', 'NOT_FOUND'],
    async handle({ params: { id = '' }, body, identity }, { keys }) {
      return json(await keys.revoke(id, identity, checked<RevokeInput>(body)))
    },
  },
]

const texts = { type: 'array', items: { type: 'string' } } as const

export const identityRoute: Route = {
  id: 'readIdentity',
  method: 'GET',
  path: '/v1/identity',
  tag: 'keys',
  summary: 'The identity of the caller, as its key or token gives it.',
  access: 'key',
  answers: {
    200: {
      description: 'The identity.',
      schema: {
        type: 'object',
        properties: {
          principal: { type: 'string' },
          tenant: { type: 'string' },
          permissions: { ...texts, description: 'Exact names, `prefix:*`, or `*` for all.' },
          roles: texts,
          tools: { ...texts, description: 'The patterns of the only tools that are visible; all when absent.' },
        },
        required: ['principal', 'tenant', 'permissions'],
      },
    },
  },
  handle: ({ identity: { principal, tenant, permissions, roles, tools } }) =>
    json({ principal, tenant, permissions, roles, tools }, 200, { 'cache-control': 'no-store' }),
}
