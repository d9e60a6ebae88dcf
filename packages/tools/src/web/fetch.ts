import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import type { BackendCall, BackendContext, BackendHost } from '@gantry/core/internal/backends/backend'
import { isJson, isJsonLines, isTextMedia, mediaOf } from '@gantry/core/internal/backends/http/media'
import type { EgressRequest } from '@gantry/core/internal/egress/egress'
import type { WebPlan } from './binding.ts'
import { draftRequest, type Shown, sealRequest } from './request.ts'
import { answerOf, extentOf, isHtml, readAll, readText } from './response.ts'

const usualRedirects = 5

/**
 * One fetch: the arguments become a request, egress sends it with its secrets, and the response is read up to the limit.
 * With `stream` the caller also receives the text in chunks.
 */
export async function fetchOnce(
  { args, tool }: BackendCall,
  plan: WebPlan,
  host: BackendHost | undefined,
  context: BackendContext,
): Promise<Json | AsyncGenerator<Json, Json>> {
  if (host === undefined) throw new ToolError('BACKEND_UNAVAILABLE', 'The backend web is not attached to an executor.')
  const as = (args.as ?? 'auto') as Shown
  const limit = Math.min(typeof args.maxBytes === 'number' ? args.maxBytes : plan.maxBytes, plan.maxBytes)
  const { secrets, ...request } = await sealRequest(draftRequest(plan, args), context)
  const response = await host.egress.request({
    ...request,
    ...scopeOf(args, plan, tool.egress),
    tenant: context.identity.tenant,
    signal: context.signal,
  })
  const media = mediaOf(response)
  const extent = extentOf(limit, secrets)
  if (args.stream === true && (isReadable(media.type) || (as === 'html' && isHtml(media.type)))) {
    return watched(readText(response, extent, media.charset), (read) =>
      answerOf(response, media, read, as, extent.hidden, context),
    )
  }
  return answerOf(response, media, await readAll(response, extent), as, extent.hidden, context)
}

/** The call's own time bounds how long an answer may take to begin; a pause within it is bounded by the guard. */
function scopeOf(
  { redirects }: JsonObject,
  { allow }: WebPlan,
  only: readonly string[] | undefined,
): Pick<EgressRequest, 'owner' | 'own' | 'only' | 'redirects' | 'headersMs' | 'partial'> {
  return {
    owner: 'http:fetch',
    ...(allow === undefined ? {} : { own: allow }),
    ...(only === undefined ? {} : { only }),
    redirects: typeof redirects === 'number' ? redirects : usualRedirects,
    headersMs: 0,
    partial: true,
  }
}

/** Formats that can be streamed; a page must be complete before it becomes text. */
function isReadable(type: string | undefined): boolean {
  return !isHtml(type) && (isJson(type) || isJsonLines(type) || isTextMedia(type))
}

type Reading = ReturnType<typeof readText>

async function* watched(
  reading: Reading,
  finish: (read: Awaited<ReturnType<typeof readAll>>) => Promise<Json>,
): AsyncGenerator<Json, Json> {
  return finish(yield* reading)
}
