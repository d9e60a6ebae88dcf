import type { Send } from '../reply/relay.ts'
import type { Bus } from '../stores/bus.ts'

/** Tells of every try to send a callback. */
export function toldOf(send: Send, tries: number, bus: Bus): Send {
  return async (item, signal) => {
    const sending = await send(item, signal)
    const last = sending.kind === 'never' || (sending.kind === 'again' && item.tries >= tries)
    const outcome = sending.kind === 'sent' ? 'sent' : last ? 'dead' : 'again'
    const error = sending.kind === 'sent' ? undefined : sending.error
    bus.emit('callback:tried', { callId: item.callId, outcome, error })
    return sending
  }
}
