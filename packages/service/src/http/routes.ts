import { openApiDocument } from './openapi.ts'
import type { Route } from './route.ts'
import { artifactRoutes } from './routes/artifacts.ts'
import { callRoutes } from './routes/calls.ts'
import { deadLetterRoutes } from './routes/dead-letters.ts'
import { operationRoutes } from './routes/operations.ts'
import { toolRoutes } from './routes/tools.ts'

/** Everything that can be asked over HTTP, and the document that says so. */
export function allRoutes(): readonly Route[] {
  const document: Route = {
    id: 'readDocument',
    method: 'GET',
    path: '/v1/openapi.json',
    tag: 'operation',
    summary: 'This document.',
    access: 'key',
    answers: { 200: { description: 'An OpenAPI 3.1 document.', schema: { type: 'object' } } },
    handle: () => ({ kind: 'text', status: 200, text: whole }),
  }
  const routes = [...callRoutes, ...toolRoutes, ...deadLetterRoutes, ...artifactRoutes, ...operationRoutes, document]
  const whole = JSON.stringify(openApiDocument(routes))
  return routes
}
