import { ToolError } from '@gantry/contract'
import type { Asked, Route } from '../route.ts'
import { ref } from '../schemas.ts'

export const eventRoute: Route = {
  id: 'followCall',
  method: 'GET',
  path: '/v1/calls/:id/events',
  tag: 'calls',
  summary:
    'What a call reports, as it comes, up to its end. A stream that ends without `done` or `error` is asked for again.',
  access: 'key',
  query: { after: { type: 'integer', minimum: 0, description: 'Only events after this id.' } },
  headers: { 'Last-Event-ID': 'The same, as browsers send it when they ask again; it goes before `after`.' },
  answers: {
    200: {
      description: 'Server-sent events; the data of each is one.',
      type: 'text/event-stream',
      schema: ref('StreamEvent'),
    },
  },
  errors: ['NOT_FOUND', 'RATE_LIMITED'],
  async handle(asked, service) {
    const { params, identity, stop } = asked
    const after = lastSeen(asked)
    asked.hold()
    const events = await service.events(params.id ?? '', after, identity, stop)
    return { kind: 'events', status: 200, events }
  },
}

function lastSeen({ query, headers }: Asked): number {
  const header = headers['last-event-id']
  if (header === undefined || header === '') return typeof query.after === 'number' ? query.after : 0
  const id = /^[0-9]{1,16}$/.test(String(header)) ? Number(header) : Number.NaN
  if (Number.isSafeInteger(id)) return id
  throw new ToolError('PAYLOAD_INVALID', 'Last-Event-ID must be the id of an event, a whole number.')
}
