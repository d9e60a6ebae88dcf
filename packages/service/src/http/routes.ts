import { openApiDocument } from './openapi.ts'
import type { Route } from './route.ts'
import { approvalRoutes } from './routes/approvals.ts'
import { artifactRoutes } from './routes/artifacts.ts'
import { auditRoutes } from './routes/audit.ts'
import { callRoutes, codeRoute, replayRoute } from './routes/calls.ts'
import { identityRoute, keyRoutes } from './routes/keys.ts'
import { deadLetterRoutes, operationRoutes } from './routes/operations.ts'
import { policyRoutes } from './routes/policy.ts'
import { toolRoutes } from './routes/tools.ts'

/** All HTTP routes, and the document of them. */
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
  const routes = [
    ...callRoutes,
    codeRoute,
    replayRoute,
    ...toolRoutes,
    ...approvalRoutes,
    ...deadLetterRoutes,
    ...artifactRoutes,
    identityRoute,
    ...keyRoutes,
    ...policyRoutes,
    ...auditRoutes,
    ...operationRoutes,
    document,
  ]
  const whole = JSON.stringify(openApiDocument(routes))
  return routes
}
