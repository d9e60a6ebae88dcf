import { ToolError } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import { json, problem } from '../answer.ts'
import type { Route } from '../route.ts'
import { listOf, pageOf, pageQuery, ref } from '../schemas.ts'

const tag = 'operation'
const open = { tag, access: 'open' } as const
const keyed = { tag, access: 'key', permission: 'gantry:operate' } as const

export const operationRoutes: readonly Route[] = [
  {
    ...keyed,
    id: 'listWorkers',
    method: 'GET',
    path: '/v1/workers',
    summary: 'The workers, by their last heartbeat.',
    answers: { 200: { description: 'All workers.', schema: listOf('Worker') } },
    async handle(_request, service) {
      return json({ items: await service.workers() })
    },
  },
  {
    ...keyed,
    id: 'readHealth',
    method: 'GET',
    path: '/v1/health',
    summary:
      'The health of the process that answers: its dependencies, and the outcomes that it cannot record; those of other tenants need gantry:tenants.',
    answers: { 200: { description: 'The health of the process.', schema: { $ref: '#/components/schemas/Health' } } },
    async handle({ identity }, service) {
      return json(await service.health(identity))
    },
  },
  {
    ...keyed,
    id: 'listRuntimes',
    method: 'GET',
    path: '/v1/runtimes',
    summary: 'The runtimes for programs.',
    answers: { 200: { description: 'All runtimes.', schema: listOf('Runtime') } },
    async handle(_request, service) {
      return json({ items: await service.runtimes() })
    },
  },
  {
    ...keyed,
    id: 'listCircuits',
    method: 'GET',
    path: '/v1/circuits',
    summary: 'The circuits of tools that are visible to the caller, by backend.',
    answers: { 200: { description: 'All circuits.', schema: listOf('Circuit') } },
    handle: ({ identity }, service) => json({ items: service.circuits(identity) }),
  },
  {
    ...keyed,
    id: 'resetCircuit',
    method: 'POST',
    path: '/v1/circuits/reset',
    summary:
      'Close a circuit, so that calls pass again; the audit log records it. For all tenants with gantry:tenants, else for the tenant of the caller.',
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
        description: 'The circuit is closed.',
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
      'Metrics in the text form of Prometheus; without a key only while the server listens on loopback. Where there are several tenants, only a holder of gantry:operate and gantry:tenants sees tools, circuits and tenants by name.',
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
        description: 'The process answers.',
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
    summary: 'Readiness: whether the process admits and executes calls.',
    answers: {
      200: {
        description: 'The process is ready.',
        schema: {
          type: 'object',
          properties: {
            ready: { const: true },
            notes: {
              type: 'array',
              items: { type: 'string' },
              description: 'Problems that need attention although the process is ready; only on loopback.',
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
      // Anyone who can reach the port may send this request, so the reasons of a failure are not shown.
      const details = local ? { details: { problems } } : {}
      return problem(new ToolError('SERVICE_UNAVAILABLE', 'The service is not ready.', details))
    },
  },
]

const deadLetterTag = 'dead letters'
const base = { tag: deadLetterTag, access: 'key' } as const

export const deadLetterRoutes: readonly Route[] = [
  {
    ...base,
    id: 'listDeadLetters',
    method: 'GET',
    path: '/v1/dead-letters',
    summary:
      'Dead letters: calls and messages that failed for good, of tools that are visible to the caller, newest first.',
    query: pageQuery,
    answers: { 200: { description: 'A page of dead letters.', schema: pageOf('DeadLetter') } },
    errors: ['INPUT_INVALID'],
    async handle({ query, identity }, service) {
      return json(await service.deadLetters(query, identity))
    },
  },
  {
    ...base,
    id: 'getDeadLetter',
    method: 'GET',
    path: '/v1/dead-letters/:id',
    summary: 'One dead letter; with its arguments, redacted, for holders of gantry:operate.',
    answers: { 200: { description: 'The dead letter.', schema: ref('DeadLetter') } },
    errors: ['NOT_FOUND'],
    async handle({ params: { id = '' }, identity }, service) {
      return json(await service.deadLetter(id, identity))
    },
  },
  {
    ...base,
    permission: 'gantry:operate',
    id: 'redriveDeadLetter',
    method: 'POST',
    path: '/v1/dead-letters/:id/redrive',
    summary: 'Redrive: submit the call again, as its first caller; a second redrive returns the same new call.',
    answers: {
      200: {
        description: 'The new call.',
        schema: { type: 'object', properties: { callId: { type: 'string' } }, required: ['callId'] },
        headers: { Location: 'The URL of the call.' },
      },
    },
    errors: ['NOT_FOUND', 'TOOL_NOT_FOUND', 'INPUT_INVALID', 'DENIED'],
    async handle({ params: { id = '' }, identity }, service) {
      const { callId } = await service.redrive(id, identity)
      return json({ callId }, 200, { location: `/v1/calls/${callId}` })
    },
  },
  {
    ...base,
    permission: 'gantry:operate',
    id: 'discardDeadLetter',
    method: 'POST',
    path: '/v1/dead-letters/:id/discard',
    summary: 'Discard a dead letter that needs no further action.',
    answers: { 204: { description: 'The dead letter is discarded.' } },
    errors: ['NOT_FOUND'],
    async handle({ params: { id = '' }, identity }, service) {
      await service.discard(id, identity)
      return { kind: 'empty', status: 204 }
    },
  },
]
