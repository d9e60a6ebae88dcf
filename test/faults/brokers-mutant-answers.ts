import { setTimeout as sleep } from 'node:timers/promises'
import {
  type BrokerReplies,
  type BrokerRepliesOptions,
  createBrokerReplies as sound,
} from '../../packages/service/src/reply/broker-replies.ts'

export { messageEncoder, replyFiles, replyFilesOf } from '../../packages/service/src/reply/broker-replies.ts'

/** Long enough for a kill before the reply. */
const lateMs = 3_000

/** Sends replies late, as with a slow broker. */
export function createBrokerReplies(options: BrokerRepliesOptions): BrokerReplies {
  const answers = sound(options)
  return { ...answers, tell: (...args) => void sleep(lateMs).then(() => answers.tell(...args)) }
}
