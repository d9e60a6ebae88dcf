import { ToolError } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import { json, problem } from '../answer.ts'
import type { Route } from '../route.ts'
import { listOf } from '../schemas.ts'

const tag = 'operation'
const open = { tag, access: 'open' } as const
const keyed = { tag, access: 'key', permission: 'gantry:operate' } as const

export const operationRoutes: readonly Route[] = [
  {
    ...keyed,
    id: 'listWorkers',
    method: 'GET',
    path: '/v1/workers',
    summary: 'Who works, as last heard.',
    answers: { 200: { description: 'All of them.', schema: listOf('Worker') } },
    async handle(_asked, service) {
      return json({ items: await service.workers() })
    },
  },
  {
    ...keyed,
    id: 'readHealth',
    method: 'GET',
    path: '/v1/health',
    summary:
      'What the process that answers knows of its dependencies, and which outcomes it holds because it cannot record them; those of other tenants only for who holds gantry:tenants.',
    answers: { 200: { description: 'What it knows.', schema: { $ref: '#/components/schemas/Health' } } },
    async handle({ identity }, service) {
      return json(await service.health(identity))
    },
  },
  {
    ...keyed,
    id: 'listRuntimes',
    method: 'GET',
    path: '/v1/runtimes',
    summary: 'Which sandboxes there are for programs.',
    answers: { 200: { description: 'All of them.', schema: listOf('Runtime') } },
    async handle(_asked, service) {
      return json({ items: await service.runtimes() })
    },
  },
  {
    ...keyed,
    id: 'listCircuits',
    method: 'GET',
    path: '/v1/circuits',
    summary: 'The circuit breakers, at their backends, of tools that are there for the caller.',
    answers: { 200: { description: 'All of them.', schema: listOf('Circuit') } },
    handle: ({ identity }, service) => json({ items: service.circuits(identity) }),
  },
  {
    ...keyed,
    id: 'resetCircuit',
    method: 'POST',
    path: '/v1/circuits/reset',
    summary:
      'Close a circuit, so that calls go through again; it is on the audit record. For all tenants with gantry:tenants, else for the tenant of the caller.',
    body: {
      members: {
        key: { type: 'string', minLength: 1, maxLength: 2_000, description: 'As `GET /v1/circuits` names it.' },
        tenant: {
          type: 'string',
          minLength: 1,
          maxLength: 500,
          description: 'Only for this tenant; another one than the caller’s needs gantry:tenants.',
        },
      },
      required: ['key'],
    },
    answers: {
      200: {
        description: 'It is closed.',
        schema: {
          type: 'object',
          properties: { reset: { type: 'boolean', description: 'Whether it was open or on trial before.' } },
          required: ['reset'],
        },
      },
    },
    errors: ['NOT_FOUND', 'DENIED'],
    async handle({ body: { key, tenant }, identity }, service) {
      const whose = tenant === undefined ? undefined : String(tenant)
      return json({ reset: await service.resetCircuit(String(key), whose, identity) })
    },
  },
  {
    tag,
    access: 'local',
    permission: 'gantry:operate',
    id: 'readMetrics',
    method: 'GET',
    path: '/metrics',
    summary:
      'Metrics in the text form of Prometheus; without a key only where nobody but this machine can ask. Where there are several tenants, only who holds gantry:operate and gantry:tenants sees tools, circuits and tenants by name.',
    answers: { 200: { description: 'The metrics.', type: 'text/plain' } },
    async handle({ identity }, service) {
      const whole = holds(identity, 'gantry:operate') && holds(identity, 'gantry:tenants')
      const { type, text } = await service.metrics(whole ? 'whole' : 'shared')
      return { kind: 'text', status: 200, headers: { 'content-type': type }, text }
    },
  },
  {
    ...open,
    id: 'isAlive',
    method: 'GET',
    path: '/healthz',
    summary: 'Whether the process answers.',
    answers: {
      200: {
        description: 'It does.',
        schema: { type: 'object', properties: { alive: { const: true } }, required: ['alive'] },
      },
    },
    handle: () => json({ alive: true }),
  },
  {
    ...open,
    id: 'isReady',
    method: 'GET',
    path: '/readyz',
    summary: 'Whether calls are taken and worked on, from what the parts did last.',
    answers: {
      200: {
        description: 'They are.',
        schema: {
          type: 'object',
          properties: {
            ready: { const: true },
            notes: {
              ...{ type: 'array', items: { type: 'string' } },
              description: 'What its owner should see to nevertheless; only for this machine.',
            },
          },
          required: ['ready'],
        },
      },
    },
    errors: ['SERVICE_UNAVAILABLE'],
    async handle({ local }, service) {
      const { ready, problems, notes = [] } = await service.ready()
      if (ready) return json(local && notes.length > 0 ? { ready: true, notes } : { ready: true })
      // What is wrong inside is not for everybody who can reach a port.
      const details = local ? { details: { problems } } : {}
      return problem(new ToolError('SERVICE_UNAVAILABLE', 'The service is not ready.', details))
    },
  },
]
