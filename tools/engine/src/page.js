const svg = document.querySelector('.drawing svg');
const all = svg.viewBox.baseVal, whole = [all.x, all.y, all.width, all.height];
const show = (x, y, w, h) => svg.setAttribute('viewBox', `${x} ${y} ${w} ${h}`);
const frame = svg.parentElement, width = frame.clientWidth;
// All of it fits the page; what is small is not made larger than text.
frame.style.height = `min(80vh, ${Math.ceil(whole[3] * Math.min(1, width / whole[2]))}px)`;
const room = svg.getBoundingClientRect();
const fits = () => {
  const by = Math.max(1, whole[2] / room.width, whole[3] / room.height);
  show((whole[2] - room.width * by) / 2, 0, room.width * by, room.height * by);
};
fits();
svg.addEventListener('wheel', event => {
  event.preventDefault();
  const box = svg.getBoundingClientRect(), v = svg.viewBox.baseVal, by = event.deltaY > 0 ? 1.15 : 1 / 1.15;
  const fx = (event.clientX - box.x) / box.width, fy = (event.clientY - box.y) / box.height;
  show(v.x + v.width * fx * (1 - by), v.y + v.height * fy * (1 - by), v.width * by, v.height * by);
}, { passive: false });
let held = null;
svg.addEventListener('pointerdown', event => { held = [event.clientX, event.clientY]; svg.setPointerCapture(event.pointerId); });
svg.addEventListener('pointerup', () => { held = null; });
svg.addEventListener('pointermove', event => {
  if (!held) return;
  const box = svg.getBoundingClientRect(), v = svg.viewBox.baseVal;
  show(v.x - (event.clientX - held[0]) * v.width / box.width, v.y - (event.clientY - held[1]) * v.height / box.height, v.width, v.height);
  held = [event.clientX, event.clientY];
});
let full = false;
svg.addEventListener('dblclick', event => {
  full = !full;
  if (!full) return fits();
  const box = svg.getBoundingClientRect(), v = svg.viewBox.baseVal;
  const x = v.x + v.width * (event.clientX - box.x) / box.width, y = v.y + v.height * (event.clientY - box.y) / box.height;
  show(x - box.width / 2, y - box.height / 2, box.width, box.height);
});
for (const button of document.querySelectorAll('button[data-open]'))
  button.addEventListener('click', () => {
    for (const one of document.querySelectorAll('details[id]')) one.open = Boolean(button.dataset.open);
  });
