// Grid Numpad 2 x 2, by the rules of gtrxl.tasks: moving onto the next pad of a hidden sequence lights it and pays 1, moving onto
// another clears all lights. The whole sequence lit, the lights go out and it can be done again.

export const SIZE = 2;
export const STEPS = 50;
export const MOVES = [[0, 0], [-1, -1], [-1, 0], [-1, 1], [0, -1], [0, 1], [1, -1], [1, 0], [1, 1]]; // rows, columns

const PADS = SIZE * SIZE;

export class GridNumpad {
  // `order` is the place of each pad in the sequence. On 2 x 2 pads every order is a path of king's moves.
  constructor(order = shuffled(), place = Math.floor(Math.random() * PADS)) {
    Object.assign(this, { order, place, lit: 0, paid: 0, elapsed: 0, total: 0, action: null, reward: 0 });
  }

  get over() {
    return this.elapsed >= STEPS;
  }

  lights() {
    return this.order.map((number) => Number(number < this.lit));
  }

  // Where it is, which pads are lit, its last action, all one-hot or 0/1; its last reward.
  observation() {
    return [...oneHot(this.place, PADS), ...this.lights(), ...oneHot(this.action, MOVES.length), this.reward];
  }

  step(action) {
    const [rows, columns] = MOVES[action];
    const row = Math.floor(this.place / SIZE) + rows;
    const column = (this.place % SIZE) + columns;
    const inside = row >= 0 && row < SIZE && column >= 0 && column < SIZE;
    this.reward = 0;
    if (inside && action !== 0) {
      this.place = row * SIZE + column;
      this.press();
    }
    this.action = action;
    this.elapsed += 1;
    this.total += this.reward;
  }

  press() {
    const right = this.order[this.place] === this.lit;
    this.reward = Number(right && this.lit >= this.paid);
    this.lit = right ? this.lit + 1 : 0;
    this.paid = Math.max(this.paid, this.lit);
    if (this.lit === PADS) this.lit = this.paid = 0;
  }
}

function oneHot(index, size) {
  return Array.from({ length: size }, (_, i) => Number(i === index));
}

function shuffled() {
  const order = [...Array(PADS).keys()];
  for (let i = PADS - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}
