import { ToolError } from '@gantry/contract'

const withoutBody = new Set([101, 204, 205, 304])
const newline = 10
const carriageReturn = 13

/**
 * The same response with a body that fails at a size limit: of the whole body, or, for an event stream, of one event, so
 * that a stream may last for days.
 */
export function boundedResponse(response: Response, limit: number): Response {
  if (response.body === null || withoutBody.has(response.status)) return response
  const stream = response.headers.get('content-type')?.toLowerCase().startsWith('text/event-stream') === true
  let size = 0
  let blank = false
  const count = (chunk: Uint8Array): void => {
    if (!stream) {
      size += chunk.length
      return
    }
    for (const byte of chunk) {
      size += 1
      if (byte === newline) {
        if (blank) size = 0
        blank = true
      } else if (byte !== carriageReturn) blank = false
    }
  }
  const limiter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      count(chunk)
      if (size > limit) controller.error(tooLarge(limit))
      else controller.enqueue(chunk)
    },
  })
  const { status, statusText, headers, url } = response
  const result = new Response(response.body.pipeThrough(limiter), { status, statusText, headers })
  Object.defineProperty(result, 'url', { value: url })
  return result
}

function tooLarge(limit: number): ToolError {
  return new ToolError('BACKEND_FAILED', `The server sent a message larger than ${limit} bytes.`)
}
