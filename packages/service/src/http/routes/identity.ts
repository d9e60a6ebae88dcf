import { json } from '../answer.ts'
import type { Route } from '../route.ts'

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
